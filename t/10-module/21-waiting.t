# A duplicate of a request that is still with the backend waits for it, and
# gets its answer; if the first one fails, the waiting one takes its place; if
# it takes too long, the answer is "try again", never 2xx.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use Test::More;
use Time::HiRes qw(time);

my $common = 'interlock zone=z; interlock_kind k; fastcgi_pass backend;'
    . 'interlock_work_key w $http_x_id; interlock_idempotency_key $http_x_id;';

my $t = Interlock::Nginx->new(workers => 2,
    http => 'interlock_zone zone=z:1m in_flight=30s;',
    server => <<"END");
        interlock_tenant demo;
        location /plain { interlock_source plain; $common }
        location /short { interlock_source short; interlock_wait 300ms; $common }
        location /none { interlock_source none; interlock_wait 0; $common }
        location /provider {
            interlock_source provider; interlock_wait 200ms;
            interlock_verify github secret=secrets/github;
            interlock zone=z; interlock_kind k; fastcgi_pass backend;
            interlock_work_key w \$http_x_github_delivery;
            interlock_idempotency_key \$http_x_github_delivery;
        }
        location = /status { interlock_status; }
END
$t->secret(github => "s3cret\n");
$t->start;

sub start_request {
    my ($path, $id, $do) = @_;
    my $c = $t->connect;
    $c->request(POST => $path, { body => '{}', close => 1,
        headers => ['X-Id' => $id, 'X-Backend' => $do // '' ] });
    return $c;
}


# the first one succeeds

my $first = start_request('/plain', 'a', 'hold=a');
$t->wait_seen(1);
is($t->status->{in_flight}, 1, 'in flight');

my @waiting = map { start_request('/plain', 'a') } 1 .. 20;
$t->wait_for(sub { $t->status('/plain')->{waited} == 20 }, 10, '20 to wait');
$t->let_go('a');

my $res = $first->response;
is($res->{status}, 202, 'the first: accepted');
my @again = map { $_->response } @waiting;
is(scalar(grep { $_->{status} == 202 && $_->{body} eq $res->{body} } @again),
    20, 'all that waited get its answer');
is(scalar(grep { (Interlock::Nginx::header($_, 'idempotency-replayed') // '')
    eq 'true' } @again), 20, 'as replays');
is(scalar $t->seen, 1, 'one reached the backend');


# the first one fails

$t->forget_seen;
$first = start_request('/plain', 'b', 'hold=b;status=500');
$t->wait_seen(1);
@waiting = map { start_request('/plain', 'b') } 1 .. 10;
$t->wait_for(sub { $t->status('/plain')->{waited} == 30 }, 10, '10 to wait');
$t->let_go('b');

is($first->response->{status}, 500, 'the first: failed');
@again = map { $_->response } @waiting;
is(scalar(grep { $_->{status} == 202 } @again), 10, 'the others: answered');
is(scalar(grep { Interlock::Nginx::header($_, 'interlock-decision')
    eq 'accepted' } @again), 1, 'one of them went through');
is(scalar $t->seen, 2, 'two reached the backend');


# the first one takes too long

$t->forget_seen;
$first = start_request('/short', 'c', 'hold=c');
$t->wait_seen(1);
my $t0 = time;
$res = start_request('/short', 'c')->response;
my $took = time - $t0;
is($res->{status}, 409, 'too long: 409');
is(Interlock::Nginx::problem($res), 'request-in-progress', 'a problem');
is(Interlock::Nginx::header($res, 'retry-after'), 1, 'with Retry-After');
ok(!defined Interlock::Nginx::header($res, 'interlock-decision'),
    'which is not a decision');
cmp_ok($took, '>=', 0.28, 'it waited');
cmp_ok($took, '<', 1.5, 'and not longer');
is(scalar $t->seen, 1, 'and reached nothing');
is($t->status('/short')->{decisions}{in_progress}, 1, 'counted');
$t->let_go('c');
is($first->response->{status}, 202, 'the first goes on');
is(start_request('/short', 'c')->response->{status}, 202, 'then a replay');
is(scalar $t->seen, 1, 'from the zone');


# no waiting

$t->forget_seen;
$first = start_request('/none', 'd', 'hold=d');
$t->wait_seen(1);
is(start_request('/none', 'd')->response->{status}, 409, 'at once');
$t->let_go('d');
is($first->response->{status}, 202, 'the first goes on');


# verified, a provider: some give up on 4xx

$t->forget_seen;
my $c = $t->connect;
my $sig = 'sha256=' . Digest::SHA::hmac_sha256_hex('{}', 's3cret');
$c->request(POST => '/provider', { body => '{}', close => 1, headers => [
    'X-Hub-Signature-256' => $sig, 'X-GitHub-Delivery' => 'e',
    'X-Backend' => 'hold=e' ] });
$t->wait_seen(1);
$res = $t->github('/provider', 'e', '{}');
is($res->{status}, 503, 'provider: 503');
is(Interlock::Nginx::problem($res), 'request-in-progress', 'the same problem');
is(Interlock::Nginx::header($res, 'retry-after'), 1, 'with Retry-After');
$t->let_go('e');
is($c->response->{status}, 202, 'the first goes on');


# one that waits and goes away

$t->forget_seen;
$first = start_request('/plain', 'f', 'hold=f');
$t->wait_seen(1);
my $waited = $t->status('/plain')->{waited};
my $gone = start_request('/plain', 'f');
$t->wait_for(sub { $t->status('/plain')->{waited} > $waited }, 10, 'waiting');
$gone->close;
$t->wait_for(sub { $t->status('/plain')->{decisions}{unfinished} == 1 }, 10,
    'the one that left');
is($t->status->{in_flight}, 1, 'the first is not touched by it');
$t->let_go('f');
is($first->response->{status}, 202, 'and goes on');

# every request has one outcome
for my $path (qw(/plain /short /none /provider)) {
    my $l = $t->status($path);
    my $sum = 0;
    $sum += $_ for values %{ $l->{decisions} };
    is($sum, $l->{requests}, "$path: outcomes add up to requests");
}
is($t->status->{in_flight}, 0, 'nothing is left in flight');

$t->finish;
done_testing();
