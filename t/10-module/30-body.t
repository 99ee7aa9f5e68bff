# However the body comes, the module sees the bytes that were sent: the
# signature holds, and the backend gets the same bytes.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Digest::SHA qw(hmac_sha256_hex sha256_hex);
use Interlock::Nginx;
use Test::More;

# small buffers, so that every way of keeping a body is met
my $gate = 'interlock zone=z; interlock_kind k; interlock_source s;'
    . 'interlock_verify github secret=secrets/github; fastcgi_pass backend;'
    . 'interlock_idempotency_key $http_x_github_delivery; '
    . 'interlock_work_key body $length;';

my $t = Interlock::Nginx->new(
    http => 'interlock_zone zone=z:4m; client_header_buffer_size 1k;'
        . 'client_body_buffer_size 4k; interlock_json $length /n;',
    server => <<"END");
        interlock_tenant demo;
        location /in { $gate }
        location /file { client_body_in_file_only on; $gate }
        location /clean { client_body_in_file_only clean; $gate }
        location /single { client_body_in_single_buffer on; $gate }
        location /large { client_body_buffer_size 64k; $gate }
        location /small { client_max_body_size 1k; $gate }
        location = /status { interlock_status; }
END
$t->secret(github => "s3cret\n");
$t->start;

my $n = 0;

# a JSON body of exactly that many bytes, not compressible to one pattern
sub body {
    my ($size) = @_;
    my $text = '{"n":' . $size . ',"x":"';
    my $i = 0;
    while (length $text < $size - 2) {
        $text .= sprintf '%x,', $i++ * 2654435761 % 4294967296;
    }
    return substr($text, 0, $size - 2) . '"}';
}

sub check {
    my ($name, $path, $body, %opt) = @_;

    my $id = 'b' . $n++;
    $t->forget_seen;
    my $send = delete $opt{send};
    my $headers = [ 'X-Hub-Signature-256' => 'sha256='
        . hmac_sha256_hex($body, 's3cret'), 'X-GitHub-Delivery' => $id,
        @{ delete $opt{headers} // [] } ];

    my ($res, @seen);
    for my $time (1, 2) {
        my $c = $t->connect;
        if ($send) {
            $send->($c, $headers, $body);
        } else {
            $c->request(POST => $path, { %opt, body => $body,
                headers => $headers });
        }
        my $r = $c->response;
        is($r->{status}, 202, "$name: " . ($time == 1 ? 'verified'
            : 'again')) or diag($r->{body});
        is($r->{body}, $res->{body}, "$name: the same answer") if $time == 2;
        $res = $r;

        # the connection goes on: nothing of the body is left in it
        $c->request(GET => '/status', { close => 1 });
        is($c->response->{status}, 200, "$name: keepalive");
    }
    @seen = $t->seen;
    is(scalar @seen, 1, "$name: one at the backend");
    is($seen[0]{length}, length $body, "$name: its length");
    is($seen[0]{digest}, sha256_hex($body), "$name: its bytes");
    is($seen[0]{params}{CONTENT_LENGTH}, length $body, "$name: CONTENT_LENGTH");
}

# around header buffer (1k), body buffer (4k), their sum, pages, and far above
for my $size (30, 500, 1023, 1024, 1025, 2047, 2048, 4095, 4096, 4097, 5119,
    5120, 5121, 8191, 8192, 8193, 65536, 300_000, 3_000_000)
{
    check("$size bytes", '/in', body($size));
}

for my $size (30, 4096, 4097, 50_000) {
    check("in a file, $size bytes", '/file', body($size));
    check("in a file that goes, $size bytes", '/clean', body($size));
    check("in a single buffer, $size bytes", '/single', body($size));
    check("in memory, $size bytes", '/large', body($size));
    check("chunked by 7, $size bytes", '/in', body($size), chunked => 7);
    check("chunked by 1000, $size bytes", '/in', body($size), chunked => 1000);
    check("chunked by 4096, $size bytes", '/large', body($size),
        chunked => 4096);
}

check('byte by byte', '/in', body(60), send => sub {
    my ($c, $headers, $body) = @_;
    my $text = Interlock::Nginx::Connection::request_text(POST => '/in',
        { headers => $headers, body => $body });
    setsockopt $c->{s}, 6, 1, 1;            # TCP_NODELAY
    $c->send($_) for split //, $text;
});

check('chunked, byte by byte', '/in', body(60), send => sub {
    my ($c, $headers, $body) = @_;
    my $text = Interlock::Nginx::Connection::request_text(POST => '/in',
        { headers => $headers, body => $body, chunked => 5 });
    setsockopt $c->{s}, 6, 1, 1;
    $c->send($_) for split //, $text;
});

check('header and body apart', '/in', body(6000), send => sub {
    my ($c, $headers, $body) = @_;
    my $text = Interlock::Nginx::Connection::request_text(POST => '/in',
        { headers => $headers, body => $body });
    my ($head, $rest) = $text =~ /^(.*?\r\n\r\n)(.*)$/s;
    $c->send($head);
    $t->wait_for(sub { $t->status('/in')->{requests} }, 5, 'the header');
    $c->send($rest);
});

for my $size (40, 70_000) {
    check("Expect: 100-continue, $size bytes", '/in', body($size),
        send => sub {
            my ($c, $headers, $body) = @_;
            my $text = Interlock::Nginx::Connection::request_text(POST =>
                '/in', { headers => [ @$headers, Expect => '100-continue' ],
                body => $body });
            my ($head, $rest) = $text =~ /^(.*?\r\n\r\n)(.*)$/s;
            $c->send($head);
            local $c->{want_continue} = 1;
            is($c->response->{status}, 100, 'told to go on');
            $c->send($rest);
        });
}

# bytes that a text would not keep
check('bytes', '/large', '{"n":1,"x":"' . "\xc3\xa9\\u0000" . "\r\n" =~ s/\r\n//r
    . '"}');

# one connection, many requests at once
{
    my $c = $t->connect;
    my $text = '';
    my @bodies = map { body($_) } 30, 3000, 9000, 40, 30_000, 41;
    for my $again (1, 2) {
        my $i = 0;
        for my $b (@bodies) {
            $text .= Interlock::Nginx::Connection::request_text(POST => '/in',
                { body => $b, headers => [ 'X-GitHub-Delivery' => 'p' . $i++,
                'X-Hub-Signature-256' => 'sha256='
                . hmac_sha256_hex($b, 's3cret') ] });
        }
    }
    $t->forget_seen;
    my $pid = fork;
    if (!$pid) {
        $c->send($text);
        POSIX::_exit(0);
    }
    my @res = map { $c->response } 1 .. 2 * @bodies;
    waitpid $pid, 0;
    is(scalar(grep { $_->{status} == 202 } @res), 12, 'pipelined: answered');
    is($res[$_]{body}, $res[ $_ + @bodies ]{body}, "pipelined: $_ again")
        for 0 .. $#bodies;
    is(scalar $t->seen, 6, 'pipelined: each once');
}

# pipelined refusals: what is refused must not eat the next request
{
    my $c = $t->connect;
    $c->send(join '', map { Interlock::Nginx::Connection::request_text(POST =>
        '/in', { body => body(5000), headers => [ 'X-GitHub-Delivery' => 'q',
        'X-Hub-Signature-256' => 'sha256=00' ] }) } 1 .. 4);
    is(join(' ', map { $c->response->{status} } 1 .. 4), '401 401 401 401',
        'pipelined refusals');
}

# no body
{
    my $res = $t->github('/in', 'empty', '');
    is($res->{status}, 400, 'an empty body has no JSON');
    is(Interlock::Nginx::problem($res), 'json-invalid', 'says so');
    my $c = $t->connect;
    $c->request(POST => '/in', { close => 1, headers => [
        'X-GitHub-Delivery' => 'none', 'X-Hub-Signature-256' => 'sha256='
        . hmac_sha256_hex('', 's3cret') ] });
    is(Interlock::Nginx::problem($c->response), 'json-invalid',
        'no Content-Length');
}

# too large, both ways: nginx's own answer, nothing remembered
{
    $t->forget_seen;
    is($t->github('/small', 'large', body(2000))->{status}, 413,
        'too large');
    is($t->github('/small', 'large', body(2000), { chunked => 100 })->{status},
        413, 'too large, chunked');
    is($t->status->{in_flight}, 0, '413: nothing in flight');
    is(scalar $t->seen, 0, '413: nothing at the backend');
    is($t->status('/small')->{requests}, 1,
        '413: the one whose length was told did not get to the module');
    is($t->status('/small')->{decisions}{unfinished}, 1, '413: the other did');
}

my $l = $t->status('/in');
my $sum = 0;
$sum += $_ for values %{ $l->{decisions} };
is($sum, $l->{requests}, 'outcomes add up to requests');
is($t->status->{in_flight}, 0, 'nothing is in flight');

$t->finish;
done_testing();
