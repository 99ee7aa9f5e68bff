# interlock_verify content=gunzip: what is signed, and what keys are taken
# from, is what the body inflates to; what goes on is the body that came.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Digest::SHA qw(hmac_sha256_hex sha256_hex);
use IO::Compress::Gzip qw(gzip $GzipError);
use Interlock::Nginx;
use Test::More;

my $pass = 'interlock zone=z; fastcgi_pass backend;';
my $id = 'interlock_idempotency_key $http_x_id;';
my $verify = 'interlock_verify github secret=secrets/github';

my $t = Interlock::Nginx->new(
    http => 'interlock_zone zone=z:1m;',
    server => <<"END");
        interlock_tenant demo;
        interlock_source s;
        interlock_kind k;
        client_max_body_size 4m;
        client_body_buffer_size 8k;
        interlock_json \$key /key;
        interlock_form \$field field;
        location /gunzip { $pass $id $verify content=gunzip;
            interlock_work_key w \$key; }
        location /raw { $pass $id $verify content=raw;
            interlock_work_key w \$http_x_id; }
        location /form { $pass $id $verify content=gunzip;
            interlock_work_key w \$field; }
        location /body { $pass $verify content=gunzip;
            interlock_idempotency_key "" body; }
        location /small { $pass $id $verify content=gunzip;
            client_max_body_size 10k; }
        location /any { $pass $id $verify content=gunzip;
            client_max_body_size 0; }
        location /dry { $pass $id $verify content=gunzip;
            interlock_dry_run on; }
        location /split { $verify content=gunzip; interlock_split /items;
            fastcgi_pass backend;
            interlock_json \$item /id; interlock_work_key w \$item;
            interlock_idempotency_key \$item; }
        location /moved { $pass $id $verify content=gunzip;
            interlock_work_key w \$key;
            fastcgi_intercept_errors on; error_page 503 /again; }
        location /again { $pass $verify;
            interlock_idempotency_key \$http_x_id; }
        location = /status { interlock_status; }
END
$t->secret(github => "s3cret\n");
$t->start;

my $n = 0;

sub packed {
    my ($text, %opt) = @_;
    gzip(\$text => \my $out, -Minimal => 1, %opt) or die $GzipError;
    return $out;
}

# Signs the first, sends the second.
sub post {
    my ($path, $signed, $body, @h) = @_;
    push @h, 'X-Id' => 'i' . $n++ unless grep { $_ eq 'X-Id' } @h;
    return $t->http(POST => $path, { body => $body, headers => [
        'X-Hub-Signature-256' => 'sha256=' . hmac_sha256_hex($signed, 's3cret'),
        @h ] });
}

sub good {
    my ($name, $key, $path, $signed, $body, @h) = @_;
    is(post($path, $signed, $body, @h)->{status}, 202, "$name: accepted");
    my $seen = ($t->seen)[-1];
    is($seen->{params}{INTERLOCK_WORK_KEY}, $key, "$name: the key");
    is($seen->{params}{INTERLOCK_VERIFIED}, 'github', "$name: verified");
    is($seen->{digest}, sha256_hex($body), "$name: the body as it came");
}

sub bad {
    my ($name, $status, $problem, $path, $signed, $body, @h) = @_;
    my $before = $t->seen;
    my $res = post($path, $signed, $body, @h);
    is($res->{status}, $status, "$name: $status");
    is(Interlock::Nginx::problem($res), $problem, "$name: $problem");
    is(scalar $t->seen, $before, "$name: nothing at the backend");
    is($t->status->{in_flight}, 0, "$name: nothing in flight");
}

my $text = '{"key":"a","n":1.10}';
my $gzip = packed($text);
my @gzip = ('Content-Encoding' => 'gzip');

good('gzip', 'w:a', '/gunzip', $text, $gzip, @gzip);
good('x-gzip, in capitals', 'w:a', '/gunzip', $text, $gzip,
    'Content-Encoding' => 'X-GZIP');
good('not compressed', 'w:a', '/gunzip', $text, $text);
good('identity', 'w:a', '/gunzip', $text, $text,
    'Content-Encoding' => 'identity');
good('stored', 'w:a', '/gunzip', $text, packed($text, -Level => 0), @gzip);
good('a form', 'w:a%20b', '/form', 'x=1&field=a+b', packed('x=1&field=a+b'),
    @gzip);

# in a file of nginx's, and inflated beyond any buffer
my $big = '{"key":"big","x":"' . join('', map { chr(97 + int rand 26) }
    1 .. 1_500_000) . '"}';
good('a megabyte and a half', 'w:big', '/gunzip', $big, packed($big), @gzip);

# the compressed bytes signed, and the other way round
good('raw', 'w:r1', '/raw', $gzip, $gzip, @gzip, 'X-Id' => 'r1');
bad('the compressed bytes signed', 401, 'signature-invalid', '/gunzip', $gzip,
    $gzip, @gzip);
bad('the inflated bytes signed, taken raw', 401, 'signature-invalid', '/raw',
    $text, $gzip, @gzip);
bad('compressed, and not said so', 401, 'signature-invalid', '/gunzip', $text,
    $gzip);
bad('said so, and not compressed', 400, 'bad-request', '/gunzip', $text,
    $text, @gzip);

# what is not one piece of gzip
bad('nothing', 400, 'bad-request', '/gunzip', '', '', @gzip);
bad('cut off', 400, 'bad-request', '/gunzip', $text,
    substr($gzip, 0, -1), @gzip);
bad("cut off by $_", 400, 'bad-request', '/gunzip', $text,
    substr($gzip, 0, -$_), @gzip) for 2 .. length($gzip) - 1;
bad('a byte behind', 400, 'bad-request', '/gunzip', $text, $gzip . chr $_,
    @gzip) for 0, 1, 127, 255;
bad('something behind', 400, 'bad-request', '/gunzip', $text, $gzip . "\0" x 4,
    @gzip);
bad('two pieces', 400, 'bad-request', '/gunzip', $text . $text, $gzip . $gzip,
    @gzip);
(my $sum = $gzip) =~ s/(.)(.{7})\z/chr(ord($1) ^ 1) . $2/se;
bad('a wrong sum', 400, 'bad-request', '/gunzip', $text, $sum, @gzip);
bad("encoded as $_", 415, 'encoding-unsupported', '/gunzip', $text, $gzip,
    'Content-Encoding' => $_) for 'br', 'gzip, gzip', 'deflate', 'gzipx';
bad('encoded twice', 415, 'encoding-unsupported', '/gunzip', $text, $gzip,
    @gzip, @gzip);

# bombs: the limit of the location, then that of the ratio
my $limit = 'x' x 10_240;
is(post('/small', $limit, packed($limit), @gzip)->{status}, 202,
    'as large as the limit');
bad('a byte more', 413, 'body-too-large', '/small', "x$limit",
    packed("x$limit"), @gzip);
my $bomb = 'x' x 4_000_000;
bad('four megabytes of nothing', 413, 'body-too-large', '/gunzip', $bomb,
    packed($bomb), @gzip);
my $over = 'x' x (32 * 1024 * 1024 + 1);
bad('more than 32 MB where there is no limit', 413, 'body-too-large', '/any',
    $over, packed($over, -Level => 0), @gzip);
bad('a size that cannot be', 400, 'bad-request', '/gunzip', $text,
    substr($gzip, 0, -4) . "\xff\xff\xff\x7f", @gzip);
my $stored_big = packed($big, -Level => 0);
bad('a size that could be, and is not', 400, 'bad-request', '/gunzip', $big,
    substr($stored_big, 0, -4) . "\0\0\0\x40", @gzip);
bad('a smaller one', 400, 'bad-request', '/gunzip', $text,
    substr($gzip, 0, -4) . "\0\0\1\0", @gzip);

# the fingerprint and the key of the body are of the bytes that came
my $first = post('/body', $text, $gzip, @gzip);
is(post('/body', $text, $gzip, @gzip)->{body}, $first->{body}, 'a repeat');
my $stored = post('/body', $text, packed($text, -Level => 0), @gzip);
isnt($stored->{body}, $first->{body}, 'compressed in another way');

# a body of several requests: its elements are those of the inflated body
my $list = '{"items":[{"id":"one"},{"id":"two"}]}';
my $split = post('/split', $list, packed($list), @gzip);
my $seen = ($t->seen)[-1];
like($seen->{body}, qr/one.*two.*\Q$list\E\z/s, 'split: elements and body')
    or diag(explain($split));
is($seen->{params}{CONTENT_LENGTH}, $seen->{length}, 'split: the length');
is(length($seen->{body}) - $seen->{params}{INTERLOCK_SPLIT}, length $list,
    'split: the list is before it');

# dry run: told and passed on, unverified
is(post('/dry', $text, $sum, @gzip)->{status}, 202, 'dry run: passes');
ok(!length(($t->seen)[-1]{params}{INTERLOCK_VERIFIED} // ''),
    'dry run: not verified');

# an internal redirect to a location that takes the body raw
my $res = post('/moved', $text, $gzip, @gzip, 'X-Backend' => 'status=503');
is($res->{status}, 401, 'redirected: judged anew, over the body as it came');

like($t->error_log, qr/interlock: body-too-large: the body inflates to more/,
    'the log says why');

done_testing();
