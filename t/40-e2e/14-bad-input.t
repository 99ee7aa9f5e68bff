#!/usr/bin/perl

# Bad input through the whole line, nginx to PostgreSQL: each a clear problem,
# no crash, nothing stored.  (What nginx's core refuses by itself keeps
# nginx's page.)

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use Test::More;

use Interlock::Load qw(github_request stripe_request);
use Interlock::Test;

my $i = Interlock::Test->instance;

sub counts {
    return $i->psql('select (select count(*) from interlock.requests)'
        . " || '/' || (select count(*) from interlock.jobs)"
        . " || '/' || (select count(*) from interlock.works)"
        . " || '/' || (select count(*) from interlock.payloads)");
}

sub push_body {
    my ($repo, $ref) = @_;
    return qq({"ref":$ref,"repository":{"full_name":$repo}});
}

my $n = 0;
sub signed { return github_request($i->dir, 'bad-' . ++$n, 'push', $_[0]) }

my $before = counts();
my $backend = $i->backend_pid;

# Webhooks: [ what, request, status, problem ].  A problem of undef leaves the
# body to nginx.

my $deep = '[' x 100_000;
my @webhooks = (
    [ 'malformed JSON', signed('{"ref":'), 400, 'json-invalid' ],
    [ 'not JSON at all', signed("\x00\x01\x02"), 400, 'json-invalid' ],
    [ 'empty body', signed(''), 400, qr/json-invalid|work-key-incomplete/ ],
    [ '100,000 levels', signed(qq({"a":$deep)), 400, 'json-invalid' ],
    [ '65 levels, closed', signed('{"ref":"r","repository":{"full_name":"a"},'
        . '"x":' . '[' x 65 . ']' x 65 . '}'), 400, 'json-invalid' ],
    [ 'invalid UTF-8', signed(push_body(qq("a\xff\xfe"), '"r"')), 400,
      'json-invalid' ],
    [ 'a lone surrogate', signed(push_body('"\ud800"', '"r"')), 400,
      qr/json-invalid|work-key-/ ],
    [ 'an empty part', signed(push_body('""', '"r"')), 400,
      'work-key-incomplete' ],
    [ 'a part that is null', signed(push_body('null', '"r"')), 400,
      'work-key-incomplete' ],
    [ 'a part that is an object', signed(push_body('{}', '"r"')), 400,
      'work-key-incomplete' ],
    [ 'a part that is missing', signed('{"ref":"r"}'), 400,
      'work-key-incomplete' ],
    [ 'a part of 513 bytes', signed(push_body('"' . 'x' x 513 . '"', '"r"')),
      400, 'work-key-invalid' ],
    [ 'a member twice', signed('{"ref":"a","ref":"b",'
        . '"repository":{"full_name":"a"}}'), 400, 'json-invalid' ],
    [ 'body over the limit', signed('x' x (33 << 20)), 413, undef ],
);

for my $row (@webhooks) {
    my ($what, $req, $status, $problem) = @$row;
    my $res = $i->http('POST', $req->{path},
        { headers => $req->{headers}, body => $req->{body} });

    is($res->{status}, $status, "webhook, $what: $status");
    next unless defined $problem;
    is($res->{headers}{'content-type'}, 'application/problem+json',
        "webhook, $what: a problem");
    like($res->{json}{type},
        ref $problem ? $problem : qr{/problems/\Q$problem\E\z},
        "webhook, $what: names it");
    is($res->{json}{status}, $status, "webhook, $what: status in the body");
}

# The same over a chunked body, whose length nginx learns only by reading.

my $chunk = 'x' x (1 << 20);
my $left = 33;
my $res = $i->http('POST', '/in/github', {
    headers => signed('')->{headers},
    body => sub { return $left-- > 0 ? $chunk : '' } });
is($res->{status}, 413, 'a chunked body over the limit: 413');

# A NUL that a string of the body spells out is a control character like any
# other: percent-encoded in the key, never cut at.

my $nul = signed(push_body('"a\u0000b"', '"r"'));
$res = $i->http('POST', $nul->{path},
    { headers => $nul->{headers}, body => $nul->{body} });
is($res->{json}{work_key}, 'github:a%00b:r', 'a NUL in a key part is encoded');
$before = counts();

# No idempotency key where the source has one.

my $req = signed(push_body('"a"', '"r"'));
delete $req->{headers}{'x-github-delivery'};
$res = $i->http('POST', $req->{path},
    { headers => $req->{headers}, body => $req->{body} });
is($res->{status}, 400, 'no delivery id: 400');
like($res->{json}{type}, qr{/idempotency-key-missing\z}, 'and says so');

# Many headers: nginx's own limit, or a problem; the worker lives.

my %many = map { ("x-h-$_" => 'v') } 1 .. 10_000;
$res = $i->http('POST', '/in/github',
    { headers => { %many, %{ signed('{}')->{headers} } }, body => '{}' });
cmp_ok($res->{status}, '>=', 400, "10,000 headers: $res->{status}");
cmp_ok($res->{status}, '<', 500, 'which is not a server error');

# The API: [ what, body (text or structure), status, problem ].

my %ok = (kind => 'free', work_key => 'a:b');
my @api = (
    [ 'unknown kind', { %ok, kind => 'nosuch' }, 404, 'kind-unknown' ],
    [ 'unknown field', { %ok, colour => 'red' }, 400, 'unknown-field' ],
    [ 'no kind', { work_key => 'a' }, 400, qr/field-invalid|bad-request/ ],
    [ 'no work key', { kind => 'free' }, 400, 'work-key-incomplete' ],
    [ 'empty work key', { %ok, work_key => '' }, 400, 'work-key-incomplete' ],
    [ 'empty part', { %ok, work_key => 'a::b' }, 400, 'work-key-incomplete' ],
    [ 'empty part in an array', { %ok, work_key => [ 'a', '' ] }, 400,
      'work-key-incomplete' ],
    [ 'part of 513 bytes', { %ok, work_key => [ 'x' x 513 ] }, 400,
      'work-key-invalid' ],
    [ 'a broken escape', { %ok, work_key => 'a:%zz' }, 400,
      'work-key-invalid' ],
    [ 'a number for a key', { %ok, work_key => 7 }, 400, qr/field-invalid/ ],
    [ 'a fractional version', '{"kind":"free","work_key":"a","version":1.5}',
      400, 'field-invalid' ],
    [ 'a version of 30 digits',
      '{"kind":"free","work_key":"a","version":' . '9' x 30 . '}', 400,
      'field-invalid' ],
    [ 'a bad time', { %ok, run_after => 'tomorrow' }, 400, 'field-invalid' ],
    [ 'fresh where it is not allowed', { %ok, fresh => JSON::PP::true }, 400,
      'fresh-not-allowed' ],
    [ 'not JSON', 'kind=free', 400, 'json-invalid' ],
    [ 'an array', '[]', 400, qr/bad-request|field-invalid|json-invalid/ ],
    [ 'empty', '', 400, qr/json-invalid|field-invalid|work-key/ ],
    [ 'deep', "{\"payload\":$deep", 400, 'json-invalid' ],
    [ 'a field twice', '{"kind":"free","kind":"tally","work_key":"a"}', 400,
      qr/json-invalid/ ],
    [ 'invalid UTF-8', qq({"kind":"free","work_key":"\xff"}), 400,
      'json-invalid' ],
    [ 'a NUL byte', qq({"kind":"free","work_key":"a\0b"}), 400,
      'json-invalid' ],
);

for my $row (@api) {
    my ($what, $body, $status, $problem) = @$row;
    my $r = $i->http('POST', '/v1/jobs', { token => 'submit',
        headers => { 'content-type' => 'application/json' }, body => $body });

    is($r->{status}, $status, "API, $what: $status") or diag($r->{body});
    is($r->{headers}{'content-type'}, 'application/problem+json',
        "API, $what: a problem");
    like($r->{json}{type},
        ref $problem ? $problem : qr{/problems/\Q$problem\E\z},
        "API, $what: names it");
    cmp_ok(length($r->{json}{detail} // ''), '>', 10,
        "API, $what: says what is wrong");
}

for my $row (
    [ 'no token', {}, 401, 'token-invalid' ],
    [ 'a wrong token', { authorization => 'Bearer nonsense' }, 401,
      'token-invalid' ],
    [ 'another scheme', { authorization => 'Basic YTpi' }, 401,
      'token-invalid' ],
    [ "a worker's token", { authorization => 'Bearer ' . $i->token('worker') },
      403, 'forbidden' ],
    [ "an auditor's token",
      { authorization => 'Bearer ' . $i->token('auditor') }, 403,
      'forbidden' ])
{
    my ($what, $headers, $status, $problem) = @$row;
    my $r = $i->http('POST', '/v1/jobs',
        { headers => $headers, body => \%ok });
    is($r->{status}, $status, "$what: $status");
    like($r->{json}{type}, qr{/problems/\Q$problem\E\z}, "$what: $problem");
}

my $key = 'k' x 256;
$res = $i->http('POST', '/v1/jobs', { token => 'submit', body => \%ok,
    headers => { 'idempotency-key' => $key } });
is($res->{status}, 400, 'an idempotency key of 256 characters: 400');

is(counts(), $before, 'nothing was stored');
is($i->backend_pid, $backend, 'the backend is the same process');
is($i->http('GET', '/livez')->{status}, 200, 'and answers');

$i->check_sql;

done_testing();
