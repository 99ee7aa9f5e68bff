# Requests that no honest client sends: nothing crashes, nothing stays.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Digest::SHA qw(hmac_sha256_hex);
use Interlock::Nginx;
use Test::More;

my $t = Interlock::Nginx->new(
    http => 'interlock_zone zone=z:1m; large_client_header_buffers 64 512k;'
        . 'client_header_timeout 5s; client_body_timeout 5s;',
    server => <<'END');
        interlock_tenant demo;
        location /in {
            interlock zone=z; interlock_kind k; interlock_source s;
            interlock_verify github secret=secrets/github;
            interlock_idempotency_key $http_x_github_delivery;
            interlock_work_key w $http_x_work;
            fastcgi_pass backend;
        }
        location = /status { interlock_status; }
END
$t->secret(github => "s3cret\n");
$t->start;

my $body = '{}';
my @sig = ('X-Hub-Signature-256' => 'sha256=' . hmac_sha256_hex($body,
    's3cret'), 'X-GitHub-Delivery' => 'd', 'X-Work' => 'w');
my ($pid) = $t->workers;

sub raw {
    my ($text) = @_;
    my $c = $t->connect;
    $c->send($text);
    shutdown $c->{s}, 1;
    return $c->response;
}

sub refused {
    my ($name, $res, @codes) = @_;
    my $ok = grep { $_ == $res->{status} } @codes;
    ok($ok, "$name: $res->{status}") or diag($res->{body});
    my ($now) = $t->workers;
    is($now, $pid, "$name: the worker lives");
}

# many headers, all of them let in
my @many = map { ("X-Many-$_" => 'v' x 20) } 1 .. 10_000;
refused('10,000 headers, forged', $t->http(POST => '/in', { body => $body,
    headers => \@many }), 401, 400, 431);
refused('10,000 signatures', $t->http(POST => '/in', { body => $body,
    headers => [ ('X-Hub-Signature-256' => 'sha256=00') x 10_000 ] }),
    401, 400, 431);
refused('10,000 ids', $t->http(POST => '/in', { body => $body,
    headers => [ @sig, ('X-GitHub-Delivery' => 'e') x 10_000 ] }), 400, 431);
refused('a signature of 400 kB', $t->http(POST => '/in', { body => $body,
    headers => [ 'X-Hub-Signature-256' => 'sha256=' . '0' x 400_000 ] }), 401);
refused('an id of 400 kB', $t->http(POST => '/in', { body => $body,
    headers => [ @sig[0, 1, 4, 5], 'X-GitHub-Delivery' => 'x' x 400_000 ] }),
    400);
refused('a part of 400 kB', $t->http(POST => '/in', { body => $body,
    headers => [ @sig[0 .. 3], 'X-Work' => 'x' x 400_000 ] }), 400);
refused('a URI of 400 kB', $t->http(POST => '/in/' . 'u' x 400_000,
    { body => $body, headers => [ @sig[2 .. 5] ] }), 401);
refused('a header of 1 MB', $t->http(POST => '/in', { body => $body,
    headers => [ 'X-Hub-Signature-256' => 'x' x 1_000_000 ] }), 400, 431);

# bytes in headers
for my $c (1, 9, 127, 128, 255) {
    my $h = sprintf 'byte %02x in the id', $c;
    refused($h, $t->http(POST => '/in', { body => $body, headers =>
        [ @sig[0, 1, 4, 5], 'X-GitHub-Delivery' => 'a' . chr($c) . 'b' ] }),
        400);
}
refused('NUL in a header', raw("POST /in HTTP/1.1\r\nHost: x\r\n"
    . "X-Hub-Signature-256: a\0b\r\nContent-Length: 2\r\n\r\n{}"), 400);
is(raw("POST /in HTTP/1.1\r\nHost: x\r\nX_Hub_Signature_256: "
    . "$sig[1]\r\nContent-Length: 2\r\n\r\n{}")->{status}, 401,
    'underscores are not hyphens');

# bodies that do not end, or not as told
refused('a length of -1', raw("POST /in HTTP/1.1\r\nHost: x\r\n"
    . "Content-Length: -1\r\n\r\n"), 400);
refused('two lengths', raw("POST /in HTTP/1.1\r\nHost: x\r\n"
    . "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), 400);
refused('length and chunks', raw("POST /in HTTP/1.1\r\nHost: x\r\n"
    . "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
refused('chunks that are none', raw("POST /in HTTP/1.1\r\nHost: x\r\n"
    . "Transfer-Encoding: chunked\r\n\r\nxyz\r\n"), 400);
refused('a body that ends early',
    raw("POST /in HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"),
    0, 400);
refused('no version', raw("POST /in\r\n\r\n"), 0, 400, 405, 401);
refused('a method of our own', $t->http('X' x 100, '/in', { body => $body,
    headers => [ @sig ] }), 202, 400, 405);

# and then an honest one
is($t->http(POST => '/in', { body => $body, headers => [ @sig[0, 1, 4, 5],
    'X-GitHub-Delivery' => 'good' ] })->{status}, 202, 'an honest one');
is($t->status->{in_flight}, 0, 'nothing is in flight');

$t->finish;
done_testing();
