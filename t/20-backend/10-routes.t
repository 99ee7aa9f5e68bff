#!/usr/bin/perl

# Every route, with each role, and what a body may not be.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use Test::More;

use Interlock::FastCGI;
use Interlock::Test;

my $i = Interlock::Test->instance;
my $c = Interlock::FastCGI->of_instance($i);
my $uuid = qr/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/;
my $time = qr/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/;
my %token = map { $_ => $i->token($_) }
    qw(submit worker operator auditor);

# call(METHOD, uri, { role => …, … })
sub call {
    my ($method, $uri, $opt) = @_;
    my %o = %{ $opt // {} };
    $o{token} = $token{ delete $o{role} } if $o{role};
    return $c->request($method, $uri, \%o);
}

sub problem_is {
    my ($res, $status, $name, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    subtest $what => sub {
        is($res->{status}, $status, "status $status");
        is($res->{headers}{'content-type'}, 'application/problem+json',
            'a problem');
        is($res->{json}{type}, "https://interlock.invalid/problems/$name",
            $name);
        is($res->{json}{status}, $status, 'status in the body');
        cmp_ok(length($res->{json}{detail} // ''), '>', 10, 'a detail');
        unlike($res->{body}, qr/select |interlock\.[a-z]+[ (]|SQLSTATE|\.c:/,
            'nothing of the inside');
    };
}


# --- submissions -----------------------------------------------------------

my $res = call(POST => '/v1/jobs', { role => 'submit', body => {
    kind => 'free', work_key => [ 'org', 'a:b', "c d" ], version => 7,
    payload => { a => 1 }, priority => 3, fresh => JSON::PP::false,
    run_after => '2020-01-01T00:00:00+09:00',
    requested_by => 'kim', reason => 'a test' } });

is($res->{status}, 202, 'a job');
like($res->{json}{job_id}, qr/^$uuid$/, 'its id');
my $job = $res->{json}{job_id};
is($res->{json}{work_key}, 'org:a%3Ab:c%20d', 'parts are encoded and joined');
is($res->{json}{decision}, 'accepted', 'accepted');
is($res->{headers}{'interlock-decision'}, 'accepted', 'said in the header');
is($res->{headers}{location}, "/v1/jobs/$job", 'Location');
is($res->{json}{status_url}, "/v1/jobs/$job", 'status_url');
is($res->{json}{status}, 'queued', 'status');
ok($res->{headers}{'interlock-epoch'}, 'an epoch for the edge');
ok(!$res->{headers}{'interlock-done-for'},
    'nothing to remember without an idempotency key');

my %idem = (role => 'submit', headers => { 'idempotency-key' => 'k-1' },
    body => { kind => 'free', work_key => 'idem' });
my $first = call(POST => '/v1/jobs', \%idem);
my $again = call(POST => '/v1/jobs', \%idem);
is($first->{status}, 202, 'with an idempotency key');
cmp_ok($first->{headers}{'interlock-done-for'}, '>', 600000,
    'the edge may remember it');
like($first->{headers}{'interlock-answer'}, qr/^1;202;accepted;queued;-;1;/,
    'in the compact form');
is($again->{status}, 202, 'the same again: the first code');
is($again->{body}, $first->{body}, 'the first body');
is($again->{headers}{'interlock-decision'}, 'duplicate', 'a duplicate');
is($again->{headers}{'idempotency-replayed'}, 'true', 'marked');
$again = call(POST => '/v1/jobs', { %idem,
    headers => { 'idempotency-key' => '"k-1"' } });
is($again->{body}, $first->{body}, 'the key in quotes is the same key');
$res = call(POST => '/v1/jobs', { %idem,
    body => { kind => 'free', work_key => 'other' } });
problem_is($res, 422, 'idempotency-key-reused', 'the key for something else');
is($res->{headers}{'interlock-decision'}, 'rejected', 'rejected');
is($res->{json}{decision}, 'rejected', 'in the body too');

call(POST => '/v1/jobs', { role => 'submit',
    body => { kind => 'tally', work_key => 'busy' } });
$res = call(POST => '/v1/jobs', { role => 'submit',
    body => { kind => 'tally', work_key => 'busy' } });
is($res->{status}, 200, 'skipped: 200');
is($res->{json}{decision}, 'skipped', 'skipped');
ok($res->{json}{active_job_id}, 'with the active job');
ok(!$res->{headers}{location}, 'no Location');
problem_is(call(POST => '/v1/jobs', { role => 'submit',
    body => { kind => 'free', work_key => 'busy' } }), 409, 'work-kind',
    'one key under two kinds');

my %ok = (kind => 'free', work_key => 'a:b');
for my $row (
    [ 'a version below 0', { %ok, version => -1 }, 'field-invalid' ],
    [ 'a version of 1e3', '{"kind":"free","work_key":"a","version":1e3}',
      'field-invalid' ],
    [ 'a version as a string', { %ok, version => '7' }, 'field-invalid' ],
    [ 'priority 101', { %ok, priority => 101 }, 'field-invalid' ],
    [ 'fresh as a number', { %ok, fresh => 1 }, 'field-invalid' ],
    [ 'a deadline without a zone', { %ok, deadline => '2026-07-24T09:00:00' },
      'field-invalid' ],
    [ 'a number among the parts', { %ok, work_key => [ 'a', 1 ] },
      'field-invalid' ],
    [ '17 parts', { %ok, work_key => [ ('a') x 17 ] }, 'field-invalid' ],
    [ 'no parts', { %ok, work_key => [] }, 'work-key-incomplete' ],
    [ 'a space in the key', { %ok, work_key => 'a b' }, 'work-key-invalid' ],
    [ 'a kind with a capital', { %ok, kind => 'Free' }, 'field-invalid' ],
    [ 'a kind of 65 bytes', { %ok, kind => 'k' x 65 }, 'field-invalid' ],
    [ 'a NUL in a string', '{"kind":"free","work_key":"a","reason":"\u0000"}',
      'field-invalid' ],
    [ 'half a surrogate pair',
      '{"kind":"free","work_key":"a","reason":"\ud800"}', 'field-invalid' ],
    [ 'a reason of 1025 bytes', { %ok, reason => 'x' x 1025 },
      'field-invalid' ],
    [ 'a field whose name is escaped twice',
      '{"kind":"free","k\u0069nd":"free","work_key":"a"}', 'json-invalid' ],
    [ 'an unknown field with a long name', { %ok, 'x' x 5000 => 1 },
      'unknown-field' ],
    [ 'text behind the object', '{"kind":"free","work_key":"a"} x',
      'json-invalid' ],
    [ 'null', 'null', 'json-invalid' ])
{
    my ($what, $body, $name) = @$row;
    problem_is(call(POST => '/v1/jobs', { role => 'submit', body => $body }),
        400, $name, $what);
}
problem_is(call(POST => '/v1/jobs', { role => 'submit', body => \%ok,
    headers => { 'idempotency-key' => '' } }), 400,
    'idempotency-key-invalid', 'an empty idempotency key');
problem_is(call(POST => '/v1/jobs', { role => 'submit', body => \%ok,
    headers => { 'idempotency-key' => '"open' } }), 400,
    'idempotency-key-invalid', 'a broken quotation');

is(call(POST => '/v1/jobs', { role => 'submit',
    body => '{"kind":"free","work_key":"null-fields","version":null,'
        . '"priority":null,"run_after":null,"reason":null}' })->{status},
    202, 'null is as if left out');


# --- ingress ---------------------------------------------------------------

my %in = (INTERLOCK_TENANT => 'demo', INTERLOCK_SOURCE => 'github',
    INTERLOCK_KIND => 'webhook', INTERLOCK_WORK_KEY => 'hook:1',
    INTERLOCK_IDEMPOTENCY_KEY => 'd-1', INTERLOCK_VERIFIED => 'github',
    INTERLOCK_MISMATCH => 'first');

$res = call(POST => '/in/github', { params => \%in, body => "\x00raw\xff",
    headers => { 'x-github-event' => 'push', authorization => 'Bearer x',
        cookie => 'a=b', 'x-odd' => "caf\xe9" } });
is($res->{status}, 202, 'a webhook');
my ($row) = $i->sql('select encode(payload, $$hex$$), headers, content_type '
    . 'from interlock.payloads where job_id = '
    . "'$res->{json}{job_id}'");
is($row->[0], unpack('H*', "\x00raw\xff"), 'its bytes are stored as they are');
my $headers = decode_json($row->[1]);
is($headers->{'x-github-event'}, 'push', 'with its headers');
ok(!exists $headers->{authorization} && !exists $headers->{cookie},
    'but no credentials');
is($headers->{'x-odd'}, "caf\x{fffd}", 'a header that is not UTF-8');

$again = call(POST => '/in/github', { params => \%in, body => 'else' });
is($again->{body}, $res->{body}, 'mismatch first: the first answer again');
$res = call(POST => '/in/github', { params => { %in,
    INTERLOCK_MISMATCH => 'reject' }, body => 'else' });
is($res->{status}, 422, 'mismatch reject: 422');

is(call(POST => '/in/another.name?a=1', { params => { %in,
    INTERLOCK_IDEMPOTENCY_KEY => 'd-3' }, body => 'x' })->{status}, 202,
    'the name in the path is of no account');
problem_is(call(POST => $_, { params => { %in,
    INTERLOCK_IDEMPOTENCY_KEY => 'd-4' }, body => 'x' }), 404, 'not-found',
    "no webhooks at $_") for '/hooks/github', '/in', '/in/', '/in/a/b',
    '/IN/github', '/';

for my $name (qw(TENANT SOURCE KIND WORK_KEY)) {
    problem_is(call(POST => '/in/github', { params => { %in,
        "INTERLOCK_$name" => '' } }), 404, 'not-found', "without its $name");
}
problem_is(call(POST => '/in/github', { params => { %in,
    INTERLOCK_SOURCE => 'check' } }), 404, 'not-found',
    'a source of the name that look-ups have');
call(PUT => '/v1/kinds/effect-check', { role => 'operator',
    body => { overlap => 'skip' } });
problem_is(call(POST => '/v1/jobs', { role => 'submit', body => {
    kind => 'effect-check', work_key => 'effect-check:1' } }), 400,
    'field-invalid', 'a job of a kind of look-ups');
problem_is(call(POST => '/in/github', { params => { %in,
    INTERLOCK_KIND => 'effect-check', INTERLOCK_WORK_KEY => 'effect-check:1',
    INTERLOCK_IDEMPOTENCY_KEY => 'd-2' } }), 400, 'field-invalid',
    'nor by a webhook');
call(DELETE => '/v1/kinds/effect-check', { role => 'operator' });
problem_is(call(POST => '/in/github', { params => { %in,
    INTERLOCK_TENANT => 'nobody' } }), 404, 'not-found', 'unknown tenant');
problem_is(call(POST => '/in/github', { params => { %in,
    INTERLOCK_WORK_KEY => 'a::b' } }), 400, 'work-key-incomplete',
    'a key with an empty part');
problem_is(call(POST => '/in/github', { params => { %in,
    INTERLOCK_IDEMPOTENCY_KEY => 'x' x 256 } }), 400,
    'idempotency-key-invalid', 'a key of 256 characters');

my %open = (%in, INTERLOCK_VERIFIED => '', INTERLOCK_IDEMPOTENCY_KEY => '',
    INTERLOCK_SOURCE => 'button', INTERLOCK_WORK_KEY => 'hook:2');
problem_is(call(POST => '/in/button', { params => \%open }), 401,
    'token-invalid', 'not verified, no token');
problem_is(call(POST => '/in/button', { params => \%open,
    role => 'worker' }), 403, 'forbidden', 'not verified, wrong role');
is(call(POST => '/in/button', { params => \%open, role => 'submit' })
    ->{status}, 202, 'not verified, token of a submitter');
$res = call(HEAD => '/in/github');
is($res->{status}, 200, 'HEAD: 200');
is($res->{body}, '', 'without a body');


# --- work ------------------------------------------------------------------

is(call(PUT => '/v1/kinds/work', { role => 'operator',
    body => { overlap => 'allow' } })->{status}, 200, 'a kind to work on');
my $payload = '{"big":12345678901234567890,"dec":1.10,"s":"\u00e9\/"}';
$res = call(POST => '/v1/jobs', { role => 'submit',
    body => qq({"kind":"work","work_key":"w:1","payload":$payload}),
    headers => { traceparent =>
        '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' } });
$job = $res->{json}{job_id};

problem_is(call(POST => '/v1/leases', { role => 'worker',
    body => { kinds => ['work'], worker => "a\tb" } }), 400, 'field-invalid',
    'a worker whose name no owner token could have');
$res = call(POST => '/v1/leases', { role => 'worker',
    body => { worker => 'w1', kinds => ['work'] } });
is($res->{status}, 200, 'a claim');
is(scalar @{ $res->{json}{leases} }, 1, 'has one lease');
my $lease = $res->{json}{leases}[0];
is($lease->{job_id}, $job, 'of that job');
like($res->{body}, qr/"payload":\Q$payload\E[,}]/,
    'the payload is spliced in unchanged');
is($lease->{content_type}, 'application/json', 'content type');
like($lease->{traceparent}, qr/^00-0af7/, 'traceparent');
like($lease->{expires_at}, qr/^$time$/, 'expires_at');
is($lease->{lease_seconds}, 30, 'lease_seconds');
is("$lease->{attempt}/$lease->{fence}", '1/1', 'attempt and fence');
like($lease->{owner_token}, qr/^v4\.public\./, 'owner token');

my %own = (token => $lease->{owner_token});
$res = call(POST => '/v1/lease/renew', { %own });
is($res->{status}, 200, 'renew');
like($res->{json}{expires_at}, qr/^$time$/, 'to when');
is($res->{json}{cancel_requested}, JSON::PP::false, 'nobody wants it ended');
$res = call(POST => '/v1/lease/progress', { %own, body => {
    progress => { done => 1, total => 3, note => 'a third' }, step => 'one',
    checkpoint => { at => 5 } } });
is($res->{status}, 200, 'progress');
$res = call(GET => "/v1/jobs/$job", { role => 'auditor' });
is($res->{json}{progress}{done}, 1, 'shows in the job');
is($res->{json}{step}, 'one', 'its step too');
is($res->{json}{status}, 'running', 'it runs');
for my $row (
    [ 'renew', { x => 1 }, 'unknown-field' ],
    [ 'progress', { progress => 5 }, 'field-invalid' ],
    [ 'progress', { progress => { done => 'x' } }, 'field-invalid' ],
    [ 'progress', { progress => { did => 1 } }, 'unknown-field' ],
    [ 'complete', { counts => { processed => -1 } }, 'field-invalid' ],
    [ 'complete', { counts => { processed => 1.5 } }, 'field-invalid' ],
    [ 'complete', { result_url => '' }, 'field-invalid' ],
    [ 'complete', '[]', 'json-invalid' ],
    [ 'fail', { error => 'x', retryable => 'no' }, 'field-invalid' ],
    [ 'fail', { error => 'x', retry_after => -1 }, 'field-invalid' ],
    [ 'release', { x => 1 }, 'unknown-field' ])
{
    my ($verb, $body, $name) = @$row;
    problem_is(call(POST => "/v1/lease/$verb", { %own, body => $body }), 400,
        $name, "$verb: $name");
}
for my $verb (qw(renew progress complete fail release)) {
    problem_is(call(POST => "/v1/lease/$verb"), 401, 'owner-token-invalid',
        "$verb without a token");
    problem_is(call(POST => "/v1/lease/$verb", { role => 'worker' }), 401,
        'owner-token-invalid', "$verb with an API token");
    (my $bent = $lease->{owner_token}) =~ s/^(v4\.public\..{40})(.)/
        $1 . ($2 eq 'A' ? 'B' : 'A')/e;
    problem_is(call(POST => "/v1/lease/$verb", { token => $bent }), 401,
        'owner-token-invalid', "$verb with a bent token");
}

my %done = (%own, body => { result => { rows => 3 },
    counts => { processed => 3, failed => 0 } });
$res = call(POST => '/v1/lease/complete', \%done);
is($res->{status}, 200, 'complete');
is($res->{json}{status}, 'succeeded', 'succeeded');
is($res->{json}{revision}, 1, 'revision 1');
my $done = $res->{body};
$res = call(POST => '/v1/lease/complete', \%done);
is($res->{body}, $done, 'the same again: the first answer');
is($res->{headers}{'idempotency-replayed'}, 'true', 'marked');
problem_is(call(POST => '/v1/lease/complete', { %own,
    body => { result => { rows => 4 } } }), 409, 'lease-lost',
    'another result');
problem_is(call(POST => '/v1/lease/complete', { %own, body => {
    result => { rows => 3 }, counts => { processed => 3 } } }), 409,
    'lease-lost', 'other counts');
problem_is(call(POST => '/v1/lease/renew', { %own }), 409, 'lease-lost',
    'renew after the end');

$res = call(GET => '/v1/works/w:1/result', { role => 'submit' });
is($res->{status}, 200, 'the result');
is($res->{json}{result}{rows}, 3, 'as the worker gave it');
is($res->{json}{fence}, 1, 'its fence');
is(call(GET => '/v1/works/w:1/result?revision=1', { role => 'submit' })
    ->{status}, 200, 'by revision');
problem_is(call(GET => '/v1/works/w:1/result?revision=2',
    { role => 'submit' }), 404, 'not-found', 'a revision that is not');
problem_is(call(GET => '/v1/works/w:1/result?revision=x',
    { role => 'submit' }), 400, 'field-invalid', 'a revision that is none');

call(POST => '/v1/jobs', { role => 'submit',
    body => { kind => 'work', work_key => 'w:2' } });
$lease = call(POST => '/v1/leases', { role => 'worker',
    body => { kinds => ['work'] } })->{json}{leases}[0];
$res = call(POST => '/v1/lease/release', { token => $lease->{owner_token} });
is($res->{json}{status}, 'queued', 'release: queued again');
$lease = call(POST => '/v1/leases', { role => 'worker',
    body => { kinds => ['work'] } })->{json}{leases}[0];
is("$lease->{attempt}/$lease->{fence}", '1/2',
    'the same attempt, a higher fence');
$res = call(POST => '/v1/lease/fail', { token => $lease->{owner_token},
    body => { error => 'no luck', retryable => JSON::PP::true,
        user_message => 'later', retry_after => 3600 } });
is($res->{json}{status}, 'queued', 'fail: queued');
like($res->{json}{retry_at}, qr/^$time$/, 'to be tried again');
$res = call(GET => "/v1/jobs/$lease->{job_id}", { role => 'worker' });
is($res->{json}{error}, 'no luck', 'the error shows');
is($res->{json}{user_message}, 'later', 'the message too');

for my $row (
    [ 'no kinds', { worker => 'w' }, 'field-invalid' ],
    [ 'kinds as a string', { kinds => 'free' }, 'field-invalid' ],
    [ 'an empty list', { kinds => [] }, 'field-invalid' ],
    [ 'a comma in a name', { kinds => ['a,b'] }, 'field-invalid' ],
    [ '33 kinds', { kinds => [ map { "k$_" } 1 .. 33 ] }, 'field-invalid' ],
    [ 'max 0', { kinds => ['free'], max => 0 }, 'field-invalid' ],
    [ 'max 101', { kinds => ['free'], max => 101 }, 'field-invalid' ],
    [ 'wait 31', { kinds => ['free'], wait => 31 }, 'field-invalid' ],
    [ 'wait 0.5', { kinds => ['free'], wait => 0.5 }, 'field-invalid' ],
    [ 'lease', { kinds => ['free'], lease => 5 }, 'unknown-field' ])
{
    my ($what, $body, $name) = @$row;
    problem_is(call(POST => '/v1/leases', { role => 'worker',
        body => $body }), 400, $name, "claim, $what");
}
$res = call(POST => '/v1/leases', { role => 'worker',
    body => { kinds => ['nosuch'] } });
is($res->{body}, '{"leases":[]}', 'nothing to claim: an empty list');


# --- look-ups --------------------------------------------------------------

problem_is(call(GET => '/v1/jobs/not-a-uuid', { role => 'auditor' }), 404,
    'not-found', 'a job id that is none');
problem_is(call(GET => '/v1/jobs/0198a000-0000-7000-8000-000000000000',
    { role => 'auditor' }), 404, 'not-found', 'a job that is not');

$i->psql('select interlock.token_create(interlock.tenant_create($$other$$), '
    . '$$o$$, r, interlock_hash) from (values ($$auditor$$)) v (r), '
    . 'lateral (select decode($$' . other_hash() . '$$, $$hex$$)) '
    . 'h (interlock_hash)');
problem_is($c->request(GET => "/v1/jobs/$job", { token => 'other-token' }),
    404, 'not-found', "another tenant's job");
problem_is($c->request(GET => '/v1/works/w:1', { token => 'other-token' }),
    404, 'not-found', "another tenant's work");

sub other_hash {
    # how tokens are stored: BLAKE2b-256, by the same code
    my ($code, $out) = Interlock::Test::run([ 'python3', '-c',
        'import hashlib; print(hashlib.blake2b(b"other-token", '
        . 'digest_size=32).hexdigest())' ]);
    die "python3: $code" if $code;
    chomp $out;
    return $out;
}

$res = call(GET => '/v1/works/org:a%253Ab:c%2520d', { role => 'submit' });
is($res->{status}, 200, 'a key with escapes, encoded once more');
is($res->{json}{work_key}, 'org:a%3Ab:c%20d', 'is decoded once');
problem_is(call(GET => '/v1/works/a%2Fb', { role => 'submit' }), 404,
    'not-found', 'an encoded slash stays in the key');
problem_is(call(GET => '/v1/works/a%zz', { role => 'submit' }), 400,
    'bad-request', 'a broken escape in the path');
problem_is(call(GET => '/v1/works/a%00b', { role => 'submit' }), 400,
    'bad-request', 'a NUL in the path');
problem_is(call(GET => '/v1/works/%ff', { role => 'submit' }), 400,
    'bad-request', 'not UTF-8 in the path');
problem_is(call(GET => '/v1/works/a%25', { role => 'submit' }), 400,
    'work-key-invalid', 'a key that cannot be one');


# --- kinds -----------------------------------------------------------------

$res = call(GET => '/v1/kinds', { role => 'operator' });
is($res->{json}{next}, undef, 'the list of kinds');
ok((grep { $_->{name} eq 'daily-sales' } @{ $res->{json}{items} }),
    'has daily-sales');
$res = call(PUT => '/v1/kinds/mine', { role => 'operator',
    body => { overlap => 'skip', lease_seconds => 60 } });
is($res->{status}, 200, 'a new kind');
is($res->{json}{lease_seconds}, 60, 'as asked for');
is($res->{json}{max_attempts}, 5, 'the rest by default');
$res = call(GET => '/v1/kinds/mine', { role => 'auditor' });
is($res->{json}{lease_seconds}, 60, 'is there');
problem_is(call(PUT => '/v1/kinds/mine', { role => 'operator',
    body => { overlap => 'sideways' } }), 400, 'field-invalid',
    'an overlap that is none');
problem_is(call(PUT => '/v1/kinds/mine', { role => 'operator',
    body => { colour => 'red' } }), 400, 'unknown-field', 'unknown field');
problem_is(call(PUT => '/v1/kinds/mine', { role => 'operator',
    body => '{"lease_seconds":1e999999}' }), 400, 'field-invalid',
    'a number bomb');
problem_is(call(PUT => '/v1/kinds/mine', { role => 'operator',
    body => '{"on_busy":"\u0000"}' }), 400, 'json-invalid', 'a NUL');
problem_is(call(PUT => '/v1/kinds/mine', { role => 'operator',
    body => '' }), 400, 'json-invalid', 'no body');
problem_is(call(PUT => '/v1/kinds/My%20Kind', { role => 'operator',
    body => {} }), 400, 'field-invalid', 'a name that is none');
$res = call(DELETE => '/v1/kinds/mine', { role => 'operator' });
is($res->{status}, 204, 'deleted');
is($res->{body}, '', 'nothing to say');
problem_is(call(GET => '/v1/kinds/mine', { role => 'auditor' }), 404,
    'not-found', 'is gone');
problem_is(call(DELETE => '/v1/kinds/mine', { role => 'operator' }), 404,
    'kind-unknown', 'cannot be deleted twice');
problem_is(call(DELETE => '/v1/kinds/tally', { role => 'operator' }), 409,
    'kind-in-use', 'nor while in use');


# --- the matrix of roles ---------------------------------------------------

my @routes = (
    [ POST   => '/v1/jobs', 'submit' ],
    [ GET    => "/v1/jobs/$job", 'submit worker operator auditor' ],
    [ GET    => '/v1/works/w:1', 'submit worker operator auditor' ],
    [ GET    => '/v1/works/w:1/result', 'submit worker operator auditor' ],
    [ POST   => '/v1/leases', 'worker' ],
    [ GET    => '/v1/kinds', 'operator auditor' ],
    [ GET    => '/v1/kinds/free', 'operator auditor' ],
    [ PUT    => '/v1/kinds/free', 'operator' ],
    [ DELETE => '/v1/kinds/free', 'operator' ],
);
for my $row (@routes) {
    my ($method, $path, $may) = @$row;
    my $bad = 0;

    for my $role (qw(submit worker operator auditor)) {
        my $r = call($method => $path, { role => $role,
            body => $method =~ /^P/ ? '[' : '' });
        # those who may get past the token, to a body that is refused
        my $got = $r->{status} == 403 ? 0 : 1;
        $bad++, diag("$role: $r->{status}") if $r->{status} == 401
            || $got != ($may =~ /\b$role\b/ ? 1 : 0);
    }
    is($bad, 0, "$method $path: for $may only");
    problem_is(call($method => $path), 401, 'token-invalid',
        "$method $path without a token");
    is(call($method => $path, { token => 'no-such-token' })->{status}, 401,
        "$method $path with a wrong token");
}


# --- all the rest ----------------------------------------------------------

$res = call(GET => '/v1/keys');
is($res->{status}, 200, 'public keys, for everybody');
like($res->{json}{keys}[0]{key}, qr/^k4\.public\./, 'as PASERK');
is(call(GET => '/livez')->{status}, 200, 'livez');
$res = call(GET => '/readyz');
is($res->{json}{status}, 'ready', 'readyz');
problem_is(call(GET => '/nothing'), 404, 'not-found', 'no such path');
problem_is(call(GET => '/v1/jobs/'), 404, 'not-found', 'an empty id');
problem_is(call(GET => "/v1/jobs/$job/"), 404, 'not-found',
    'a slash too many');
for my $row ([ GET => '/v1/jobs:batch', 'POST' ],
    [ DELETE => '/v1/jobs', 'POST, GET, HEAD' ],
    [ POST => '/livez', 'GET, HEAD' ],
    [ PATCH => '/v1/kinds/free', 'GET, HEAD, PUT, DELETE' ],
    [ GET => '/in/github', 'POST, HEAD' ])
{
    my ($method, $path, $allow) = @$row;
    my $r = call($method => $path);
    problem_is($r, 405, 'method-not-allowed', "$method $path");
    is($r->{headers}{allow}, $allow, "Allow: $allow");
}
$res = call(HEAD => "/v1/jobs/$job", { role => 'auditor' });
is($res->{status}, 200, 'HEAD of a job');
is($res->{body}, '', 'has no body');
cmp_ok($res->{headers}{'content-length'}, '>', 100, 'but its length');

$i->check_sql;

done_testing();
