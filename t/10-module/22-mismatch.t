# A key that is known, with other content: always to the backend, and the
# entry stays as it is.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use Test::More;

my $t = Interlock::Nginx->new(
    http => 'interlock_zone zone=z:1m;',
    server => <<'END');
        interlock_tenant demo;
        location /in {
            interlock zone=z; interlock_source s;
            interlock_kind $http_x_kind;
            interlock_work_key $http_x_work;
            interlock_idempotency_key $http_x_id;
            interlock_wait 200ms;
            fastcgi_pass backend;
        }
        location /first {
            interlock zone=z; interlock_source f; interlock_kind k;
            interlock_mismatch first;
            interlock_idempotency_key $http_x_id; fastcgi_pass backend;
        }
        location /hmac {
            interlock zone=z; interlock_source h; interlock_kind k;
            interlock_verify token secret=secrets/t header=X-Token;
            interlock_idempotency_key $http_x_id; fastcgi_pass backend;
        }
        location /github {
            interlock zone=z; interlock_source g; interlock_kind k;
            interlock_verify github secret=secrets/t;
            interlock_idempotency_key $http_x_id; fastcgi_pass backend;
            location /github/reject { interlock_mismatch reject;
                fastcgi_pass backend; }
        }
        location = /status { interlock_status; }
END
$t->secret(t => "s3cret\n");
$t->start;

sub post {
    my ($path, $body, %h) = @_;
    %h = ('X-Id' => 'i', 'X-Kind' => 'k', 'X-Work' => 'w', %h);
    return $t->http(POST => $path, { body => $body, headers => [%h] });
}

my $first = post('/in', 'one');
is($first->{status}, 202, 'first');
is(post('/in', 'one')->{body}, $first->{body}, 'again');
is(scalar $t->seen, 1, 'from the zone');

my $n = 1;
for ([ 'another body', '/in', 'two' ],
     [ 'another query', '/in?x=1', 'one' ],
     [ 'another path', '/in/x', 'one' ],
     [ 'another kind', '/in', 'one', 'X-Kind' => 'k2' ],
     [ 'another work key', '/in', 'one', 'X-Work' => 'w2' ])
{
    my ($name, $path, $body, @h) = @$_;
    my $res = post($path, $body, @h, 'X-Backend' => 'status=422;decision=rejected');
    is($res->{status}, 422, "$name: the backend says what it is");
    is(scalar $t->seen, ++$n, "$name: it got there");
    is(($t->seen)[-1]{params}{INTERLOCK_MISMATCH}, 'reject', "$name: reject");
}
is($t->http(PUT => '/in', { body => 'one', headers => [ 'X-Id' => 'i',
    'X-Kind' => 'k', 'X-Work' => 'w' ] })->{status}, 202, 'another method');
is(scalar $t->seen, ++$n, 'got there');

is(post('/in', 'one')->{body}, $first->{body}, 'the entry is untouched');
is(scalar $t->seen, $n, 'by all of them');
is($t->status('/in')->{decisions}{mismatch}, 6, 'counted');

# a mismatch with one in flight does not wait, and does not settle it
my $c = $t->connect;
$c->request(POST => '/in', { body => 'one', close => 1, headers => [
    'X-Id' => 'j', 'X-Kind' => 'k', 'X-Work' => 'w', 'X-Backend' => 'hold=j' ] });
$t->wait_seen(++$n);
is(post('/in', 'two', 'X-Id' => 'j')->{status}, 202, 'at once');
$n++;
is($t->status->{in_flight}, 1, 'still in flight');
is(post('/in', 'one', 'X-Id' => 'j')->{status}, 409, 'and still waited for');
$t->let_go('j');
my $res = $c->response;
is(post('/in', 'one', 'X-Id' => 'j')->{body}, $res->{body}, 'its own answer');
is(scalar $t->seen, $n, 'from the zone');

# what the backend is told
post('/first', 'x');
is(($t->seen)[-1]{params}{INTERLOCK_MISMATCH}, 'first', 'set: first');
post('/hmac', 'x', 'X-Token' => 's3cret');
is(($t->seen)[-1]{params}{INTERLOCK_MISMATCH}, 'reject',
    'a scheme that is no provider: reject');
my $sig = 'sha256=' . Digest::SHA::hmac_sha256_hex('x', 's3cret');
post('/github', 'x', 'X-Hub-Signature-256' => $sig);
is(($t->seen)[-1]{params}{INTERLOCK_MISMATCH}, 'first', 'a provider: first');
post('/github/reject', 'x', 'X-Id' => 'r', 'X-Hub-Signature-256' => $sig);
is(($t->seen)[-1]{params}{INTERLOCK_MISMATCH}, 'reject',
    'a provider, set: reject');

$t->finish;
done_testing();
