# interlock_split: each element of a body has its own keys; the backend gets
# the list of them and the body, in one request.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Digest::SHA qw(hmac_sha256_hex sha256_hex);
use IO::Compress::Gzip qw(gzip $GzipError);
use Interlock::Nginx;
use Test::More;

my $pass = 'interlock zone=z; fastcgi_pass backend;';
my $keys = 'interlock_idempotency_key $id; interlock_work_key w $id;';
my $next = 'error_page 404 = /other; fastcgi_intercept_errors on;';

my $t = Interlock::Nginx->new(
    http => 'interlock_zone zone=z:1m; interlock_json $id /id;'
        . 'upstream two { server unix:%%BACKEND%%; server unix:%%BACKEND%%; }'
        . 'map $type $kind_of { default k; push github-push; bad "A B"; }'
        . "log_format v '\$request_uri|\$interlock_kind|\$interlock_work_key|"
        . "\$interlock_idempotency_key|\$interlock_fingerprint|\$id|"
        . "\$interlock_split|\$interlock_decision';",
    server => <<"END");
        interlock_tenant demo;
        interlock_source s;
        interlock_kind k;
        interlock_json \$type /type;
        location /top { access_log logs/access.log v;
            $pass $keys interlock_split ""; }
        location /in/under { $pass $keys interlock_split /a/0/b~1c; }
        location /kinds { $pass $keys interlock_split "";
            interlock_kind \$kind_of; }
        location /days { $pass interlock_split "";
            interlock_json \$at /at;
            interlock_business_date \$day Asia/Seoul from=\$at cutoff=04:00;
            interlock_idempotency_key \$id; interlock_work_key w \$day; }
        location /tenants { $pass $keys interlock_split "";
            interlock_tenant \$type; }
        location /whole { $pass interlock_split ""; interlock_json \$all "";
            interlock_idempotency_key "" body; interlock_work_key w \$all; }
        location /optional { $pass interlock_split "";
            interlock_idempotency_key \$id optional;
            interlock_work_key w \$type; }
        location /signed { $pass $keys interlock_split "";
            interlock_verify hmac secret=secrets/hmac header=X-Sig; }
        location /gzip { $pass $keys interlock_split "";
            interlock_verify hmac secret=secrets/hmac header=X-Sig
                             content=gunzip; }
        location /gzipbody { $pass interlock_split "";
            interlock_verify hmac secret=secrets/hmac header=X-Sig
                             content=gunzip;
            interlock_idempotency_key "" body; interlock_work_key w \$id; }
        location /small { $pass $keys interlock_split "";
            client_body_buffer_size 1k; }
        location /file { $pass $keys interlock_split "";
            client_body_in_file_only clean; }
        location /early { set \$e "\$id\$type"; $pass $keys
            interlock_split ""; }
        location /falls { $pass $keys interlock_split ""; $next }
        location /named { $pass $keys interlock_split "";
            error_page 404 = \@other; fastcgi_intercept_errors on; }
        location /again { $pass $keys interlock_split "";
            error_page 404 = \@split; fastcgi_intercept_errors on; }
        location \@other { fastcgi_pass backend; }
        location \@split { $pass $keys interlock_split ""; interlock_kind j; }
        location /other { fastcgi_pass backend; }
        location /next { interlock zone=z; $keys interlock_split "";
            fastcgi_next_upstream error non_idempotent; fastcgi_pass two; }
        location /dry { $pass $keys interlock_split ""; interlock_dry_run on; }
        location = /status { interlock_status; }
END
$t->secret(hmac => "s3cret\n");
$t->start;

# the elements as the backend would read them, or undef
sub elements {
    my ($seen) = @_;
    my ($len, $body) = ($seen->{params}{INTERLOCK_SPLIT}, $seen->{body});
    return undef unless ($len // '') =~ /^\d+$/;
    my $raw = substr $body, $len;
    my $list = substr $body, 0, $len;
    return undef unless $list =~ s/^ils1(....)//s;
    my ($n, @all) = unpack 'N', $1;
    while (length $list) {
        my ($at, $size, @text) = unpack 'NN n/a n/a n/a n/a n/a', $list;
        return undef unless @text == 5;
        substr($list, 0, length pack 'NN (n/a*)5', $at, $size, @text) = '';
        my %e = (text => substr $raw, $at, $size);
        @e{qw(problem detail kind key idem)} = @text;
        push @all, \%e;
    }
    return undef unless @all == $n;
    return \@all;
}

sub say_them {
    my ($e) = @_;
    return 'no list' unless $e;
    return join ' ', map { $_->{problem} || "$_->{kind}=$_->{key}=$_->{idem}" }
        @$e;
}

sub post {
    my ($path, $body, @h) = @_;
    $t->forget_seen;
    return $t->http(POST => $path, { body => $body, headers => \@h });
}

sub refused {
    my ($res) = @_;
    return "$res->{status} " . Interlock::Nginx::problem($res) . ' '
        . scalar $t->seen;
}

# ok_split(name, path, body, what is expected): the elements
sub ok_split {
    my ($name, $path, $body, $want, @h) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is(post($path, $body, @h)->{status}, 202, "$name: 202");
    my @seen = $t->seen;
    is(scalar @seen, 1, "$name: one request");
    my $p = $seen[0]{params};
    is($p->{CONTENT_LENGTH}, $seen[0]{length}, "$name: its length is said");
    my $e = elements($seen[0]);
    is(say_them($e), $want, "$name: its elements");
    is(substr($seen[0]{body}, $p->{INTERLOCK_SPLIT}), $body,
        "$name: behind the list the body as it came");
    is(join('', map { $p->{"INTERLOCK_$_"} // '' } qw(KIND WORK_KEY
        IDEMPOTENCY_KEY)), '', "$name: no keys of the whole");
    return $e;
}


# --- each its own keys --------------------------------------------------------

my $e = ok_split('three', '/top',
    qq( [{"id":1},\r\n {"id":"zwei:2"} , {"id":"\\u0033"}]\n),
    'k=w:1=1 k=w:zwei%3A2=zwei:2 k=w:3=3');
is(join('|', map { $_->{text} } @$e),
    '{"id":1}|{"id":"zwei:2"}|{"id":"\\u0033"}', 'the bytes of each');
my ($one) = $t->seen;
is("$one->{params}{INTERLOCK_TENANT} $one->{params}{INTERLOCK_SOURCE}",
    'demo s', 'tenant and source are those of the whole');

for ([ 'none', '[]', '' ], [ 'none with a key', '[{}]',
    'idempotency-key-missing' ])
{
    my ($name, $body, $want) = @$_;
    ok_split($name, '/top', $body, $want);
    ($one) = $t->seen;
    is("$one->{params}{INTERLOCK_TENANT} $one->{params}{INTERLOCK_SOURCE}",
        'demo s', "$name: tenant and source are said");
}
ok_split('one', '/top', '[{"id":"a"}]', 'k=w:a=a');
ok_split('by a pointer', '/in/under',
    '{"a":[{"x":[{"id":0}],"b/c":[{"id":1},{"id":2}]}],"id":3}',
    'k=w:1=1 k=w:2=2');
ok_split('a map of what an element says', '/kinds',
    '[{"id":1,"type":"push"},{"id":2},{"id":3,"type":"bad"},'
    . '{"id":4,"type":"push"}]',
    'github-push=w:1=1 k=w:2=2 field-invalid github-push=w:4=4');
ok_split('asked for too early', '/early', '[{"id":1},{"id":2}]',
    'k=w:1=1 k=w:2=2');
ok_split('an array as an element', '/top', '[[{"id":1}],{"id":2}]',
    'idempotency-key-missing k=w:2=2');
is(post('/whole', '[1, "b" ,true,1]')->{status}, 202, 'keys of the bytes');
$e = elements(($t->seen)[0]);
is(join(' ', map { "$_->{key}:$_->{text}" } @$e), 'w:1:1 w:b:"b" w:true:true'
    . ' w:1:1', 'of scalars');
is(scalar(grep { $_->{idem} =~ /^[0-9a-f]{64}$/ } @$e), 4, 'are digests');
is($e->[0]{idem}, $e->[3]{idem}, 'the same of the same bytes');
isnt($e->[0]{idem}, $e->[1]{idem}, 'others of others');
is(post('/whole', ' [ 7,1 ]')->{status}, 202, 'in another body');
is(elements(($t->seen)[0])->[1]{idem}, $e->[0]{idem},
    'the same of the same element');
ok_split('dates', '/days', '[{"id":1,"at":"2026-07-24T19:00:00Z"},{"id":2},'
    . '{"id":3,"at":"never"},{"id":4,"at":1784919599},{"id":5,"at":"' . '"},'
    . '{"id":6,"at":1784919600000}]', 'k=w:2026-07-25=1 date-invalid '
    . 'date-invalid k=w:2026-07-24=4 date-invalid k=w:2026-07-25=6');
ok_split('optional keys', '/optional',
    '[{"id":1,"type":"x"},{"type":"y"},{"id":3}]',
    'k=w:x=1 k=w:y= work-key-incomplete');
$e = ok_split('what is missing', '/top', '[{"id":1},{},{"id":""},{"id":4}]',
    'k=w:1=1 idempotency-key-missing idempotency-key-missing k=w:4=4');
cmp_ok(length $e->[1]{detail}, '>', 10, 'and it is said what');
ok_split('a member twice in one', '/top', '[{"id":1,"id":2},{"id":3}]',
    'json-invalid k=w:3=3');
ok_split('a key that is too long', '/top',
    '[{"id":"' . 'x' x 256 . '"},{"id":"' . 'y' x 255 . '"}]',
    'idempotency-key-invalid k=w:' . 'y' x 255 . '=' . 'y' x 255);

is(post('/tenants', '[{"id":1,"type":"demo"},{"id":2,"type":"acme"},'
    . '{"id":3,"type":"demo"}]')->{status}, 202, 'another tenant');
is(say_them(elements(($t->seen)[0])), 'k=w:1=1 field-invalid k=w:3=3',
    'can not be in the same body');
is(($t->seen)[0]{params}{INTERLOCK_TENANT}, 'demo', 'the first one counts');
is(post('/tenants', '[{"id":1,"type":"A B"},{"id":2,"type":"acme"}]')
    ->{status}, 202, 'a first one without a valid name');
is(say_them(elements(($t->seen)[0])), 'field-invalid k=w:2=2', 'is refused');
is(($t->seen)[0]{params}{INTERLOCK_TENANT}, 'acme', 'the next one counts');

{
    for (['not there', '[{"id":1},{"id":2}]'],
        [ 'no names', '[{"id":1,"type":"A B"},{"id":2,"type":{}}]' ],
        [ 'no element', '[]' ])
    {
        my $res = post('/tenants', $_->[1]);
        is($res->{status}, 400, "tenants: $_->[0]: 400");
        is(Interlock::Nginx::problem($res), 'field-invalid',
            "tenants: $_->[0]: says so");
        is(scalar $t->seen, 0, "tenants: $_->[0]: the backend is not told");
    }
}

$t->wait_for(sub { $t->slurp('logs/access.log') =~ /\n/ }, 10, 'the log');
like((split /\n/, $t->slurp('logs/access.log'))[0],
    qr/^\/top\|-\|-\|-\|[0-9a-f]{64}\|-\|\d+\|accepted$/,
    'the variables of the whole');
like($t->error_log, qr/interlock: element 1: idempotency-key-missing: /,
    'the log says which one is refused');


# --- large ones ----------------------------------------------------------------

for my $path ('/top', '/small', '/file') {
    my $many = '[' . join(",\n", map { "{\"id\":$_,\"pad\":\"" . 'x' x ($_ % 90)
        . '"}' } 1 .. 1000) . ']';
    is(post($path, $many)->{status}, 202, "$path: 1000 elements");
    my ($seen) = $t->seen;
    my $len = $seen->{params}{INTERLOCK_SPLIT};
    is($seen->{length}, $len + length $many, "$path: list and body");
    is($seen->{params}{CONTENT_LENGTH}, $seen->{length}, "$path: said");
    my $at = 0;
    my $list = 'ils1' . pack('N', 1000) . join '', map {
        $at = index $many, "{\"id\":$_,", $at;
        pack 'NN(n/a*)5', $at, index($many, '}', $at) + 1 - $at, '', '', 'k',
            "w:$_", $_
    } 1 .. 1000;
    is($seen->{digest}, sha256_hex($list . $many), "$path: as they should be");
}

my $chunked = '[' . join(',', map { "{\"id\":$_}" } 1 .. 100) . "]\n";
$t->forget_seen;
is($t->http(POST => '/small', { body => $chunked, chunked => 11 })->{status},
    202, 'a chunked body');
my ($seen) = $t->seen;
is($seen->{params}{CONTENT_LENGTH}, $seen->{length}, 'has its length');
is(substr($seen->{body} // '', $seen->{params}{INTERLOCK_SPLIT}), $chunked,
    'and is as it came') if defined $seen->{body};
is(scalar @{ elements($seen) // [] }, 100, 'and has its elements');

my $res = post('/top', '[' . join(',', ('{"id":1}') x 10_000) . ']');
is($res->{status}, 202, '10000 elements');
$t->forget_seen;
$res = post('/top', '[' . join(',', ('{"id":1}') x 10_001) . ']');
is(refused($res), '413 body-too-large 0', '10001 elements');
like($res->{json}{detail}, qr/more than 10000 elements/, 'says why');


# --- no elements ----------------------------------------------------------------

for (
    [ 'no array', '/top', '{"id":1}', 'field-invalid' ],
    [ 'a number', '/top', '5', 'field-invalid' ],
    [ 'nothing there', '/in/under', '{"a":[{}]}', 'field-invalid' ],
    [ 'null there', '/in/under', '{"a":[{"b/c":null}]}', 'field-invalid' ],
    [ 'twice there', '/in/under', '{"a":[{"b/c":[],"b/c":[]}]}',
      'json-invalid' ],
    [ 'an empty body', '/top', '', 'json-invalid' ],
    [ 'cut', '/top', '[{"id":1},', 'json-invalid' ],
    [ 'text behind', '/top', '[{"id":1}] x', 'json-invalid' ],
    [ 'one bad element', '/top', '[{"id":1},{"id":01}]', 'json-invalid' ],
    [ 'too deep', '/top', '[' x 200 . ']' x 200, 'json-invalid' ])
{
    my ($name, $path, $body, $problem) = @$_;
    is(refused(post($path, $body)), "400 $problem 0", $name);
}


# --- with the rest of the module -------------------------------------------------

my $body = '[{"id":1},{"id":2}]';
my $both = 'k=w:1=1 k=w:2=2';
my $sig = hmac_sha256_hex($body, 's3cret');
ok_split('signed', '/signed', $body, $both, 'X-Sig' => $sig);
is(($t->seen)[0]{params}{INTERLOCK_VERIFIED}, 'hmac', 'is verified');
is(refused(post('/signed', "$body ", 'X-Sig' => $sig)),
    '401 signature-invalid 0', 'forged');

# of what was inflated the elements are, so that is what the backend gets
{
    my $text = '[{"id":1},{"id":2}]';
    my $sig = hmac_sha256_hex($text, 's3cret');
    gzip(\$text => \my $packed) or die $GzipError;
    for my $path ('/gzip', '/gzipbody') {
        is(post($path, $packed, 'X-Sig' => $sig,
            'Content-Encoding' => 'gzip')->{status}, 202, "$path: compressed");
        my ($seen) = $t->seen;
        is($seen->{params}{CONTENT_LENGTH}, $seen->{length}, "$path: length");
        is(substr($seen->{body}, $seen->{params}{INTERLOCK_SPLIT}), $text,
            "$path: inflated");
        my $e = elements($seen);
        is(join('|', map { $_->{text} } @$e), '{"id":1}|{"id":2}',
            "$path: its elements");
        isnt($e->[0]{idem}, $e->[1]{idem}, "$path: their keys");
    }
    is(refused(post('/gzip', $packed, 'X-Sig' => $sig)),
        '401 signature-invalid 0', 'compressed, and it is not said');
}

my $before = $t->status;
my $count = $t->status('/top')->{decisions}{split};
is(post('/top', $body)->{status}, 202, 'again') for 1 .. 3;
is($t->status->{done}, $before->{done}, 'the zone remembers nothing of it');
is($t->status->{in_flight}, 0, 'nothing is in flight');
is($t->status('/top')->{decisions}{split}, $count + 3, 'they are counted as split');
is($t->status('/top')->{decisions}{forwarded}, 0, 'and not as forwarded');

# error_page leads to somebody else, who gets what the client sent
for my $path ('/falls', '/named') {
    is(post($path, $body, 'X-Backend' => 'status=404')->{status}, 404, $path);
    my @seen = $t->seen;
    is(scalar @seen, 2, "$path: a second request");
    is(say_them(elements($seen[0])), $both, "$path: the first with a list");
    is($seen[1]{params}{INTERLOCK_SPLIT}, '', "$path: then none");
    is($seen[1]{params}{CONTENT_LENGTH}, length $seen[1]{body},
        "$path: the length of the body");
    is($seen[1]{body}, $body, "$path: which is as it came");
}

is(post('/again', $body, 'X-Backend' => 'status=404')->{status}, 404, 'again');
is(join('|', map { say_them(elements($_)) } $t->seen),
    "$both|j=w:1=1 j=w:2=2", 'or who splits it by his own rules');
is(($t->seen)[1]{params}{CONTENT_LENGTH}, ($t->seen)[1]{length},
    'with its length');

# the next server gets the same
is(post('/next', $body, 'X-Backend' => 'close')->{status}, 502, 'no answer');
is(join('|', map { say_them(elements($_)) } $t->seen), "$both|$both",
    'was asked of both servers');
is(($t->seen)[0]{digest}, ($t->seen)[1]{digest}, 'in the same words');

ok_split('dry run', '/dry', '[{"id":1},{}]', 'k=w:1=1 idempotency-key-missing');

is($t->http(HEAD => '/top')->{status}, 200, 'HEAD');
is($t->status('/top')->{decisions}{unfinished}, 0, 'nothing is left undecided');

$t->finish;
done_testing();
