# The same over HTTP/2: bodies with and without content-length, many streams
# of one connection at once.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Digest::SHA qw(hmac_sha256_hex sha256_hex);
use Interlock::Nginx;
use Test::More;

for my $tool (qw(curl nghttp)) {
    plan(skip_all => "$tool is not installed")
        unless grep { -x "$_/$tool" } split /:/, $ENV{PATH};
}

my $t = Interlock::Nginx->new(
    listen => '127.0.0.1:%%PORT%% http2',
    http => 'interlock_zone zone=z:1m; client_body_buffer_size 4k;',
    server => <<'END');
        interlock_tenant demo;
        location /in {
            interlock zone=z; interlock_kind k; interlock_source s;
            interlock_verify github secret=secrets/github;
            interlock_idempotency_key $http_x_github_delivery;
            fastcgi_pass backend;
        }
        location /long {
            interlock zone=z; interlock_kind k; interlock_source u;
            interlock_wait 20s;
            interlock_idempotency_key $http_x_id;
            fastcgi_pass backend;
        }
        location /short {
            interlock zone=z; interlock_kind k; interlock_source t;
            interlock_wait 300ms;
            interlock_idempotency_key $http_x_id;
            fastcgi_pass backend;
        }
END
$t->secret(github => "s3cret\n");

# the helpers speak HTTP/1.1, so there is a second port for them
my $plain = Interlock::Nginx::free_port();
$t->{servers} = "server { listen 127.0.0.1:$plain;"
    . ' location = /status { interlock_status; } }';
$t->start;
my $url = 'http://127.0.0.1:' . $t->port;

sub status {
    local $t->{port} = $plain;
    return $t->status(@_);
}

sub curl {
    my ($path, $body, @args) = @_;
    $t->write_file('html/body', $body);
    open my $out, '-|', 'curl', '-s', '-i', '--max-time', 20,
        '--http2-prior-knowledge', '--data-binary', '@' . $t->dir
        . '/html/body', '-H', 'Content-Type: application/json', @args,
        "$url$path" or die;
    my $said = do { local $/; <$out> };
    close $out;
    my ($head, $text) = $said =~ /^(.*?)\r\n\r\n(.*)$/s;
    my ($status) = ($head // '') =~ m{^HTTP/2 (\d+)};
    return { status => $status // 0, head => $head, body => $text };
}

my $n = 0;
for my $size (0, 1, 500, 4095, 4096, 4097, 16_383, 16_384, 16_385, 65_535,
    65_536, 300_000, 3_000_000)
{
    my $body = substr join(',', 1 .. $size / 3 + 2), 0, $size;
    my $sig = 'X-Hub-Signature-256: sha256=' . hmac_sha256_hex($body, 's3cret');
    for my $how ([ 'with content-length' ],
        [ 'without', '-H', 'Transfer-Encoding: chunked' ])
    {
        my ($name, @args) = @$how;
        my $id = 'X-GitHub-Delivery: h' . $n++;
        $t->forget_seen;
        my $res = curl('/in', $body, '-H', $sig, '-H', $id, @args);
        is($res->{status}, 202, "$size bytes $name");
        my $again = curl('/in', $body, '-H', $sig, '-H', $id, @args);
        is($again->{body}, $res->{body}, "$size bytes $name: again");
        like($again->{head}, qr/^idempotency-replayed: true\r?$/m, 'a replay');
        my @seen = $t->seen;
        is(scalar @seen, 1, "$size bytes $name: once");
        is($seen[0]{digest}, sha256_hex($body), "$size bytes $name: raw");
    }
}

my $res = curl('/in', 'x', '-H', 'X-GitHub-Delivery: f',
    '-H', 'X-Hub-Signature-256: sha256=00');
is($res->{status}, 401, 'a forged one');
like($res->{body}, qr/signature-invalid/, 'is told');

# streams of one connection: one goes through, the others wait for it
sub nghttp {
    my ($count, $path, @headers) = @_;
    $t->write_file('html/body', '{}');
    open my $out, '-|', 'nghttp', '-v', '-n', '-m', $count, '-d',
        $t->dir . '/html/body', (map { ('-H', $_) } @headers), "$url$path"
        or die;
    my $said = do { local $/; <$out> };
    close $out;
    my %count;
    $count{$1}++ while $said =~ /:status: (\d+)/g;
    return \%count;
}

# Lets NAME go once that many streams have come to the outcome.
sub later {
    my ($name, $sub) = @_;
    my $pid = fork // die;
    return $pid if $pid;
    $t->wait_for($sub, 15, "streams for $name");
    $t->let_go($name);
    POSIX::_exit(0);
}

$t->forget_seen;
my $pid = later(m => sub { status('/long')->{waited} == 9 });
my $count = nghttp(10, '/long', 'x-id: m', 'x-backend: hold=m');
waitpid $pid, 0;
is($count->{202}, 10, 'ten streams get the one answer');
is(scalar $t->seen, 1, 'asked for once');

$t->forget_seen;
$pid = later(n => sub { status('/short')->{decisions}{in_progress} == 5 });
$count = nghttp(6, '/short', 'x-id: n', 'x-backend: hold=n');
waitpid $pid, 0;
is($count->{409}, 5, 'streams that wait too long: 409');
is($count->{202}, 1, 'the first one goes on');
is(scalar $t->seen, 1, 'asked for once');

is(status()->{in_flight}, 0, 'nothing is in flight');
$t->finish;
done_testing();
