#!/usr/bin/perl

# Lists, cancel, publish, limits, explain and 429: each well and badly, by
# each role, and never what belongs to another tenant.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::FastCGI;
use Interlock::Test;

my $i = Interlock::Test->instance;
my $c = Interlock::FastCGI->of_instance($i);
my $uuid = qr/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/;
my %token = map { $_ => $i->token($_) }
    qw(submit worker operator auditor);

for my $role (qw(submit operator auditor)) {
    my $file = $i->dir . "/tokens/other-$role";
    my $r = $i->cli('token', 'create', '--dsn-file', $i->dir . '/dsn',
        '--tenant', 'other', '--name', $role, '--role', $role, '--out',
        $file);
    is($r->{code}, 0, "a token of another tenant: $role") or diag $r->{err};
    $token{"other-$role"} = Interlock::Test::slurp($file) =~ s/\s+\z//r;
}

sub call {
    my ($method, $uri, $opt) = @_;
    my %o = %{ $opt // {} };
    $o{token} = $token{ delete $o{role} } if $o{role};
    return $c->request($method, $uri, \%o);
}

sub problem_is {
    my ($res, $status, $name, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is("$res->{status} " . ($res->{json}{type} // $res->{body}),
        "$status https://interlock.invalid/problems/$name", $what);
    cmp_ok(length($res->{json}{detail} // ''), '>', 5, 'with a detail');
}

sub submit {
    my ($kind, $key, %more) = @_;
    return call(POST => '/v1/jobs', { role => 'submit',
        body => { kind => $kind, work_key => $key, %more } });
}

sub kind {
    my ($name, %policy) = @_;
    my $r = call(PUT => "/v1/kinds/$name", { role => 'operator',
        body => \%policy });
    is($r->{status}, 200, "(kind $name)") or diag $r->{body};
}

sub claim {
    my ($kind, $max) = @_;
    return @{ call(POST => '/v1/leases', { role => 'worker',
        body => { kinds => [$kind], max => $max // 1 } })->{json}{leases} };
}

sub own { { token => $_[0]{owner_token}, body => $_[1] // {} } }

# roles_are(METHOD, uri, body, roles that may): the others get 403, nobody 401
sub roles_are {
    my ($method, $uri, $body, @may) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my %may = map { $_ => 1 } @may;
    my @wrong = grep {
        my $s = call($method, $uri, { role => $_, body => $body })->{status};
        ($s == 403) == ($may{$_} // 0)
    } qw(submit worker operator auditor);
    is("@wrong", '', "$method $uri: @may, and no other role");
    is(call($method, $uri, { body => $body })->{status}, 401,
        'and with a token');
}


# --- GET /v1/jobs ----------------------------------------------------------

my @ids = map { submit('free', "list:$_")->{json}{job_id} } 1 .. 5;
push @ids, submit('tally', 'list:6')->{json}{job_id};
my $res = call(GET => '/v1/jobs', { role => 'auditor' });
is($res->{status}, 200, 'jobs');
is(join(' ', map { $_->{job_id} } @{ $res->{json}{items} }),
    join(' ', reverse @ids), 'newest first');
is($res->{json}{next}, undef, 'all on one page');

sub pages {
    my ($uri, $key) = @_;
    my (@got, $next);
    do {
        my $r = call(GET => $uri . (defined $next ? "&cursor=$next" : ''),
            { role => 'worker' });
        is($r->{status}, 200, 'a page') or return;
        push @got, [ map { $_->{$key} } @{ $r->{json}{items} } ];
        $next = $r->{json}{next};
        $next =~ s/([^A-Za-z0-9-])/sprintf '%%%02X', ord $1/ge
            if defined $next;
        submit('free', 'list:new:' . @got) if $key eq 'job_id';
    } while (defined $next);
    return @got;
}

my @pages = pages('/v1/jobs?limit=2', 'job_id');
is(join(' ', map { scalar @$_ } @pages), '2 2 2', 'three pages of two');
is(join(' ', map { @$_ } @pages), join(' ', reverse @ids),
    'what is new meanwhile moves none of them');
@pages = pages('/v1/jobs?limit=4&kind=free&work_key=list:1', 'job_id');
is(join(' ', map { @$_ } @pages), $ids[0], 'by kind and work key');

my @now = map { $_->{job_id} } @{ call(GET => '/v1/jobs?source=api&'
    . 'status=queued&kind=tally&since=2020-01-01T00:00:00%2B09:00&limit=',
    { role => 'submit' })->{json}{items} };
is("@now", $ids[5], 'by source, status, kind, time; empty ones do not count');
for my $none ('since=2099-01-01T00:00:00Z', 'source=github', 'status=held',
    'kind=nosuch', 'work_key=nosuch')
{
    is_deeply(call(GET => "/v1/jobs?$none", { role => 'auditor' })->{json},
        { items => [], next => undef }, "$none: none");
}
is_deeply(call(GET => '/v1/jobs', { role => 'other-auditor' })->{json}{items},
    [], 'another tenant sees none of them');
is(scalar @{ call(GET => '/v1/jobs?work_key=list%3A1', { role => 'auditor' })
    ->{json}{items} }, 1, 'values are decoded');

for my $row (
    [ 'colour=red', 'unknown-field' ], [ 'Kind=free', 'unknown-field' ],
    [ 'kind', undef ], [ '&&', undef ], [ '=1', 'unknown-field' ],
    [ 'x%00=1', 'unknown-field' ],
    [ 'limit=0', 'field-invalid' ], [ 'limit=201', 'field-invalid' ],
    [ 'limit=-1', 'field-invalid' ], [ 'limit=2.5', 'field-invalid' ],
    [ 'limit=99999999999999999999', 'field-invalid' ],
    [ 'limit=1&limit=2', 'field-invalid' ],
    [ 'kind=No', 'field-invalid' ], [ 'kind=%ff', 'field-invalid' ],
    [ 'kind=%zz', 'field-invalid' ], [ 'status=open', 'field-invalid' ],
    [ 'status=spooled', 'field-invalid' ], [ 'source=a%20b', 'field-invalid' ],
    [ 'since=yesterday', 'field-invalid' ],
    [ 'since=2026-07-24T09:00:00', 'field-invalid' ],
    [ 'work_key=a::b', 'work-key-incomplete' ],
    [ 'work_key=a%20b', 'work-key-invalid' ],
    [ 'cursor=x', 'field-invalid' ], [ "cursor=%27", 'field-invalid' ])
{
    my ($query, $name) = @$row;
    $res = call(GET => "/v1/jobs?$query", { role => 'auditor' });
    if ($name) { problem_is($res, 400, $name, "?$query") }
    else { is($res->{status}, 200, "?$query") }
}
is(call(GET => '/v1/jobs')->{status}, 401, 'not without a token');


# --- cancel ----------------------------------------------------------------

kind('stop', overlap => 'buffer_all', cancel_grace => 2, lease_seconds => 20);
my $head = submit('stop', 'stop:1')->{json}{job_id};
my $wait = submit('stop', 'stop:1')->{json}{job_id};
roles_are(POST => "/v1/jobs/$head/cancel", { nonsense => 1 }, 'operator');

my $watch = Interlock::FastCGI->of_instance($i);
$watch->send(GET => "/v1/jobs/$wait", { token => $token{auditor},
    headers => { prefer => 'wait=20' } });
ok(!$watch->response(0.1), '(somebody waits for its end)');
$res = call(POST => "/v1/jobs/$wait/cancel", { role => 'operator',
    body => { requested_by => 'kim', reason => 'not needed' } });
is($res->{status}, 202, 'cancel of one that waits');
is($res->{json}{status}, 'canceled', 'canceled at once');
is($watch->response(5)->{json}{status}, 'canceled', 'who waits is told');
problem_is(call(POST => "/v1/jobs/$wait/cancel", { role => 'operator' }),
    409, 'job-final', 'again: it has ended');
my ($row) = $i->sql('select what, requested_by, reason, token_name, '
    . 'token_id is not null from interlock.actions where target = '
    . "'$wait'");
is_deeply($row, [ 'job_cancel', 'kim', 'not needed', 'operator', 't' ],
    'who and why is kept');

my $next = submit('stop', 'stop:1')->{json}{job_id};
my ($lease) = claim('stop');
is($lease->{job_id}, $head, '(the head runs)');
$res = call(POST => "/v1/jobs/$head/cancel", { role => 'operator',
    body => {} });
is($res->{status}, 202, 'cancel of one that runs');
is($res->{json}{status}, 'running', 'it is asked to end');
ok($res->{json}{cancel_requested}, 'which shows');
is(call(POST => "/v1/jobs/$head/cancel", { role => 'operator' })->{status},
    202, 'asked again: the same');
$res = call(POST => '/v1/lease/renew', own($lease));
is($res->{status}, 200, 'its worker may renew');
is($res->{json}{cancel_requested}, JSON::PP::true, 'and is told');
cmp_ok($res->{json}{remaining_ms}, '<=', 2000, 'with the grace that is left');
problem_is(call(POST => '/v1/lease/complete', own($lease,
    { result => { late => 1 } })), 409, 'job-canceled', 'it completes nothing');
my $claimer = Interlock::FastCGI->of_instance($i);
$claimer->send(POST => '/v1/leases', { token => $token{worker},
    body => { kinds => ['stop'], wait => 20 } });
my $t0 = time;
is(call(POST => '/v1/lease/release', own($lease))->{json}{status},
    'canceled', 'release: I yield');
my $got = $claimer->response(10)->{json}{leases}[0];
is($got->{job_id}, $next, 'the next of the key starts');
cmp_ok(time - $t0, '<', 0.9, 'at once: whoever waits for it is woken');
$got = $c->request(GET => "/v1/jobs/$head", { token => $token{auditor} });
is($got->{json}{status}, 'canceled', 'the canceled one is canceled');

for my $row (
    [ '00000000-0000-7000-8000-000000000000', 404, 'not-found', 'no such' ],
    [ 'nonsense', 404, 'not-found', 'no id' ])
{
    problem_is(call(POST => "/v1/jobs/$row->[0]/cancel",
        { role => 'operator' }), @$row[ 1, 2 ], $row->[3]);
}
problem_is(call(POST => "/v1/jobs/$next/cancel",
    { role => 'other-operator' }), 404, 'not-found', 'of another tenant');
for my $row ([ { by => 'x' }, 'unknown-field' ],
    [ { reason => 5 }, 'field-invalid' ],
    [ { reason => 'x' x 1025 }, 'field-invalid' ], [ '[]', 'json-invalid' ])
{
    problem_is(call(POST => "/v1/jobs/$next/cancel", { role => 'operator',
        body => $row->[0] }), 400, $row->[1], "a body: $row->[1]");
}


# --- replace, park ---------------------------------------------------------

kind('rep', overlap => 'replace', cancel_grace => 5);
my $one = submit('rep', 'rep:1');
is("$one->{status} $one->{json}{decision}", '202 accepted', 'replace: first');
($lease) = claim('rep');
my $two = submit('rep', 'rep:1');
is("$two->{status} $two->{json}{decision} $two->{json}{status}",
    '202 replaced queued', 'a second one: replaced');
is($two->{json}{active_job_id}, $one->{json}{job_id}, 'which one');
is($two->{headers}{location}, "/v1/jobs/$two->{json}{job_id}", 'Location');
problem_is(call(POST => '/v1/lease/complete', own($lease)), 409,
    'job-canceled', 'the first completes nothing');
is(call(POST => '/v1/lease/fail', own($lease, { error => 'yields' }))
    ->{json}{status}, 'superseded', 'it yields');
is((claim('rep'))[0]{job_id}, $two->{json}{job_id}, 'the second starts');

kind('park', overlap => 'buffer_all', max_waiting => 1, overflow => 'park');
my @park = map { submit('park', 'park:1') } 1 .. 3;
is(join(' ', map { "$_->{status}:$_->{json}{decision}:$_->{json}{status}" }
    @park), '202:accepted:queued 202:buffered:queued 202:parked:parked',
    'overflow park');
is($park[2]{json}{reason}, 'key_full', 'why');
is($park[2]{headers}{location}, "/v1/jobs/$park[2]{json}{job_id}",
    'Location');


# --- 429 -------------------------------------------------------------------

kind('full', overlap => 'buffer_all', max_waiting => 1,
    overflow => 'reject');
submit('full', 'full:1') for 1 .. 2;
my %again = (role => 'submit', headers => { 'idempotency-key' => 'full' },
    body => { kind => 'full', work_key => 'full:1' });
$res = call(POST => '/v1/jobs', \%again);
problem_is($res, 429, 'queue-full', 'a third one');
is($res->{headers}{'interlock-decision'}, 'rejected', 'decision: rejected');
like($res->{headers}{'retry-after'}, qr/^\d+$/, 'Retry-After in seconds');
cmp_ok($res->{headers}{'retry-after'}, '>=', 1, 'at least 1');
cmp_ok($res->{headers}{'retry-after'}, '<=', 3600, 'at most an hour');
is(join(' ', @{ $res->{json} }{qw(decision reason kind work_key status)}),
    'rejected key_full full full:1 429', 'what the problem says');
ok(!$res->{headers}{'interlock-done-for'}, 'nothing for the edge to keep');
is($i->psql("select count(*) from interlock.requests where kind = 'full' "
    . "and decision = 'rejected' and code = 429"), 1, 'it is a request');
my ($l) = claim('full');
call(POST => '/v1/lease/complete', own($l));
$res = call(POST => '/v1/jobs', \%again);
is($res->{status}, 202, 'its idempotency key was not used up');

kind('small', overlap => 'allow', max_queued => 2);
submit('small', "small:$_") for 1 .. 2;
$res = submit('small', 'small:3');
is("$res->{status} $res->{json}{reason}", '429 kind_full', 'of a kind');
$i->psql("select interlock.tenant_bound(t.id, 1) from interlock.tenants t "
    . "where t.name = 'other'");
call(PUT => '/v1/kinds/t', { role => 'other-operator',
    body => { overlap => 'allow' } });
my @t = map { call(POST => '/v1/jobs', { role => 'other-submit',
    body => { kind => 't', work_key => "t:$_" } }) } 1 .. 2;
is(join(' ', map { "$_->{status} " . ($_->{json}{reason} // '') } @t),
    '202  429 tenant_full', 'of a tenant');


# --- key template ----------------------------------------------------------

kind('tmpl', key_template => 'org:{org}:daily:{date}');
is(submit('tmpl', 'org:a:daily:2026-07-24')->{status}, 202,
    'a key as its template says');
for my $key ('org:a:daily', 'org:a:weekly:1', 'org:a:daily:1:2', 'x') {
    problem_is(submit('tmpl', $key), 400, 'work-key-mismatch', "not: $key");
}


# --- limits ----------------------------------------------------------------

my $name = '/v1/limits/crm:%7Bsite%7D';
$res = call(PUT => $name, { role => 'operator', body => { capacity => 2 } });
is($res->{status}, 200, 'a limit');
is_deeply($res->{json}, { name => 'crm:{site}', capacity => 2,
    start_rate => undef, active => 0 }, 'as it is');
is_deeply(call(PUT => $name, { role => 'operator',
    body => { start_rate => 2.5 } })->{json}, { name => 'crm:{site}',
    capacity => 2, start_rate => 2.5, active => 0 },
    'what is left out stays');
is(call(PUT => $name, { role => 'operator', body => { start_rate => undef } })
    ->{json}{start_rate}, undef, 'null: no rate');
is(call(GET => $name, { role => 'auditor' })->{json}{capacity}, 2, 'GET');
$res = call(GET => '/v1/limits', { role => 'operator' });
is_deeply([ map { $_->{name} } @{ $res->{json}{items} } ], ['crm:{site}'],
    'the list');
roles_are(GET => $name, undef, 'operator', 'auditor');
roles_are(GET => '/v1/limits', undef, 'operator', 'auditor');
roles_are(PUT => $name, { capacity => -1 }, 'operator');
roles_are(DELETE => '/v1/limits/none', undef, 'operator');
for my $row (
    [ { capacity => 0 }, 'field-invalid' ],
    [ { capacity => -1 }, 'field-invalid' ],
    [ { capacity => 1.5 }, 'field-invalid' ],
    [ '{"capacity":1e99}', 'field-invalid' ],
    [ '{"capacity":99999999999999999999}', 'field-invalid' ],
    [ { capacity => '3' }, 'field-invalid' ],
    [ { capacity => undef }, 'field-invalid' ],
    [ { start_rate => 0 }, 'field-invalid' ],
    [ { start_rate => -1 }, 'field-invalid' ],
    [ '{"start_rate":1e400}', 'field-invalid' ],
    [ { start_rate => 'fast' }, 'field-invalid' ],
    [ { capacity => 1, colour => 1 }, 'unknown-field' ],
    [ '[]', 'json-invalid' ], [ '', 'json-invalid' ], [ '{', 'json-invalid' ])
{
    problem_is(call(PUT => $name, { role => 'operator', body => $row->[0] }),
        400, $row->[1], 'PUT: ' . (ref $row->[0]
            ? encode_json($row->[0]) : $row->[0]));
}
problem_is(call(PUT => '/v1/limits/new', { role => 'operator', body => {} }),
    400, 'field-invalid', 'a new one without a capacity');
problem_is(call(PUT => '/v1/limits/a%20b', { role => 'operator',
    body => { capacity => 1 } }), 400, 'field-invalid', 'a name with a space');
problem_is(call(PUT => '/v1/limits/' . 'x' x 256, { role => 'operator',
    body => { capacity => 1 } }), 400, 'field-invalid', 'a name of 256');
problem_is(call(GET => '/v1/limits/none', { role => 'operator' }), 404,
    'not-found', 'none of that name');
problem_is(call(GET => $name, { role => 'other-auditor' }), 404, 'not-found',
    'another tenant has none');
problem_is(call(DELETE => $name, { role => 'other-operator' }), 404,
    'not-found', 'nor deletes it');

kind('lim', overlap => 'allow', limits => ['crm:{site}'],
    key_template => 'site:{site}:{n}');
submit('lim', "site:a:$_") for 1 .. 4;
submit('lim', 'site:b:1');
my @leases = claim('lim', 10);
is(join(' ', sort map { $_->{work_key} =~ /site:(.)/ } @leases), 'a a b',
    'two of site a, one of site b');
is(call(GET => $name, { role => 'operator' })->{json}{active}, 2,
    'active: the fullest');
is(scalar claim('lim', 10), 0, 'no more now');

# a slot that is free wakes who waits, whatever kind the slot was of
kind('lim2', overlap => 'allow', limits => ['crm:{site}'],
    key_template => 'site:{site}:{n}');
$res = submit('lim2', 'site:b:2');
is($res->{json}{decision}, 'accepted', '(a job of another kind, same limit)');
($l) = grep { $_->{work_key} eq 'site:b:1' } @leases;
submit('lim2', 'site:b:3');
is(scalar claim('lim2', 10), 1, 'it may start beside the first');
$claimer = Interlock::FastCGI->of_instance($i);
$claimer->send(POST => '/v1/leases', { token => $token{worker},
    body => { kinds => ['lim2'], wait => 20 } });
ok(!$claimer->response(0.2), 'the next waits for room');
$t0 = time;
is(call(POST => '/v1/lease/complete', own($l))->{status}, 200,
    'a job of the first kind ends');
is($claimer->response(10)->{json}{leases}[0]{work_key}, 'site:b:3',
    'the one of the other kind starts');
cmp_ok(time - $t0, '<', 0.9, 'at once');

$claimer->send(POST => '/v1/leases', { token => $token{worker},
    body => { kinds => ['lim'], wait => 20 } });
ok(!$claimer->response(0.2), '(a worker waits)');
$t0 = time;
call(PUT => $name, { role => 'operator', body => { capacity => 3 } });
is(scalar @{ $claimer->response(10)->{json}{leases} }, 1,
    'a higher capacity lets one start');
cmp_ok(time - $t0, '<', 0.9, 'at once');
is(call(PUT => $name, { role => 'operator', body => { capacity => 1 } })
    ->{json}{active}, 3, 'a lower one ends nothing');
my $m = $i->metrics;
is($m->{'interlock_configured_limit{limit="crm:{site}",tenant="demo"}'}, 1,
    'configured_limit');
is($m->{'interlock_active_concurrency{limit="crm:{site}",tenant="demo"}'}, 3,
    'active_concurrency');
cmp_ok($m->{'interlock_acquisition_failed_total{kind="lim",'
    . 'reason="limit_full"}'} // 0, '>=', 1, 'limit_full is counted');
is($m->{'interlock_acquisition_failed_total{kind="full",'
    . 'reason="queue_full"}'}, 1, 'queue_full is counted');
is($m->{'interlock_overlap_attempt_total{kind="rep",policy="replace",'
    . 'decision="replaced"}'}, 1, 'decisions by policy');
is(call(DELETE => $name, { role => 'operator' })->{status}, 204, 'DELETE');
is(scalar claim('lim', 10), 1, 'nothing holds the last one back');


# --- results and publish ---------------------------------------------------

kind('res', overlap => 'allow');
for my $key ('site:17:a', 'site:17:b', 'site:170:a', "site:17:\x{e9}") {
    utf8::encode(my $bytes = $key);
    submit('res', $key, version => 3);
    my ($x) = claim('res');
    is(call(POST => '/v1/lease/complete', own($x, { result => { v => 1 } }))
        ->{json}{revision}, 1, '(a result)');
}
@pages = pages('/v1/results?prefix=site:17:&limit=2', 'work_key');
is(join(' | ', map { "@$_" } @pages), "site:17:a site:17:b | site:17:\x{e9}",
    'results by prefix, in order, page by page');
is(scalar @{ call(GET => '/v1/results?prefix=', { role => 'submit' })
    ->{json}{items} }, $i->psql('select count(*) from interlock.works '
    . 'where published_revision is not null'), 'all of them');
is_deeply(call(GET => '/v1/results?prefix=site', { role => 'other-auditor' })
    ->{json}{items}, [], 'none of another tenant');
for my $row ([ 'prefix=a&x=1', 'unknown-field' ],
    [ 'limit=0', 'field-invalid' ], [ 'cursor=%25', 'field-invalid' ],
    [ 'cursor=AA', 'field-invalid' ], [ 'prefix=%0a', 'field-invalid' ],
    [ 'prefix=' . 'x' x 2049, 'field-invalid' ])
{
    problem_is(call(GET => "/v1/results?$row->[0]", { role => 'auditor' }),
        400, $row->[1], '?' . substr($row->[0], 0, 20));
}

my $pub = '/v1/works/site:17:a/publish';
submit('res', 'site:17:a', version => 4);
($l) = claim('res');
call(POST => '/v1/lease/complete', own($l, { result => { v => 2 } }));
is(call(GET => '/v1/works/site:17:a/result', { role => 'submit' })
    ->{json}{revision}, 2, 'a second revision is published');
submit('res', 'site:17:a', version => 5);
my ($late) = claim('res');
$res = call(POST => $pub, { role => 'operator', body => { revision => 1,
    requested_by => 'kim', reason => 'the second is wrong' } });
is($res->{status}, 200, 'publish the first again');
is("$res->{json}{revision} $res->{json}{result}{v}", '1 1', 'it is');
call(POST => '/v1/lease/complete', own($late, { result => { v => 3 } }));
is(call(GET => '/v1/works/site:17:a/result', { role => 'submit' })
    ->{json}{revision}, 1, 'who ran meanwhile does not override it');
is(call(GET => '/v1/works/site:17:a/result?revision=3', { role => 'submit' })
    ->{json}{result}{v}, 3, 'but is kept');
roles_are(POST => $pub, { revision => 99 }, 'operator');
for my $row (
    [ { revision => 99 }, 404, 'not-found' ],
    [ { revision => 0 }, 400, 'field-invalid' ],
    [ { revision => 1.5 }, 400, 'field-invalid' ],
    [ { revision => 'one' }, 400, 'field-invalid' ],
    [ { revision => 4294967296 }, 400, 'field-invalid' ],
    [ {}, 400, 'field-invalid' ], [ '', 400, 'json-invalid' ],
    [ { revision => 1, version => 2 }, 400, 'unknown-field' ])
{
    problem_is(call(POST => $pub, { role => 'operator', body => $row->[0] }),
        @$row[ 1, 2 ], 'publish: ' . (ref $row->[0]
            ? encode_json($row->[0]) : 'nothing'));
}
problem_is(call(POST => $pub, { role => 'other-operator',
    body => { revision => 1 } }), 404, 'not-found', 'of another tenant');
problem_is(call(POST => '/v1/works/a::b/publish', { role => 'operator',
    body => { revision => 1 } }), 400, 'work-key-incomplete', 'no work key');


# --- explain ---------------------------------------------------------------

my $before = $i->psql('select count(*) from interlock.requests');
my $works = $i->psql('select count(*), sum(fence) from interlock.works');
$res = call(POST => '/v1/kinds/full/explain', { role => 'operator',
    body => { work_key => [ 'full', '9' ], payload => { n => '1.10' },
        version => 1, priority => 5, run_after => '2020-01-01T00:00:00Z',
        deadline => '2099-01-01T00:00:00+09:00', fresh => JSON::PP::false,
        idempotency_key => 'e', source => 'github', kind => 'full' } });
is($res->{status}, 200, 'explain');
is("$res->{json}{decision} $res->{json}{code} $res->{json}{work_key} "
    . "$res->{json}{policy}", 'accepted 202 full:9 buffer_all', 'a decision');
cmp_ok(length $res->{json}{why}, '>', 10, 'and why');
$res = call(POST => '/v1/kinds/full/explain', { role => 'operator',
    body => { work_key => 'full:1' } });
is($res->{json}{decision}, 'rejected', 'one that would be refused');
is($res->{json}{code}, 429, 'with its code');
$res = call(POST => '/v1/kinds/tmpl/explain', { role => 'operator',
    body => { work_key => 'org:a' } });
is("$res->{json}{problem} $res->{json}{code}", 'work-key-mismatch 400',
    'one whose key does not fit');
roles_are(POST => '/v1/kinds/full/explain', { x => 1 }, 'operator');
problem_is(call(POST => '/v1/kinds/nosuch/explain', { role => 'operator',
    body => { work_key => 'a' } }), 404, 'kind-unknown', 'no such kind');
problem_is(call(POST => '/v1/kinds/full/explain', { role => 'other-operator',
    body => { work_key => 'a' } }), 404, 'kind-unknown', 'another tenant');
for my $row ([ {}, 'work-key-incomplete' ], [ '', 'json-invalid' ],
    [ { work_key => 'a', x => 1 }, 'unknown-field' ],
    [ { work_key => 'a', kind => 'free' }, 'field-invalid' ],
    [ { work_key => 'a', priority => 101 }, 'field-invalid' ],
    [ { work_key => 'a', source => 'a b' }, 'field-invalid' ],
    [ { work_key => 'a', idempotency_key => '' }, 'idempotency-key-invalid' ],
    [ { work_key => 'a', deadline => '2026-02-31T00:00:00Z' },
      'field-invalid' ])
{
    problem_is(call(POST => '/v1/kinds/full/explain', { role => 'operator',
        body => $row->[0] }), 400, $row->[1], 'explain: ' . (ref $row->[0]
            ? encode_json($row->[0]) : 'nothing'));
}
is($i->psql('select count(*) from interlock.requests'), $before,
    'no request was stored');
is($i->psql('select count(*), sum(fence) from interlock.works'), $works,
    'no work, no fence');

# --- who and why, in which there is nothing to see ---------------------------

# refused before anybody looks whether the thing is there
my $nil = '00000000-0000-7000-8000-000000000000';
$before = $i->psql('select count(*) from interlock.actions');
for my $path ("/v1/jobs/$nil/cancel", "/v1/jobs/$nil/decide",
    "/v1/jobs/$nil/revoke", '/v1/works/a/rerun', '/v1/works/a/publish',
    '/v1/kinds/full/pause', '/v1/kinds/full/resume', '/v1/sources/api/pause',
    '/v1/schedules/daily-sales-9am/pause', "/v1/effects/$nil/resolve",
    "/v1/gaps/$nil/dismiss", "/v1/inbox/job.$nil/assign")
{
    for my $blank ('   ', "\n", "\x{a0}", "\x{200b}\x{202e}") {
        my %ok = (requested_by => 'me', reason => 'why');
        my @bad = map {
            my $r = call(POST => $path, { role => 'operator', body => {
                %ok, $_ => $blank,
                $path =~ /decide/ ? (action => 'fail') : (),
                $path =~ /resolve/ ? (outcome => 'happened') : (),
                $path =~ /publish/ ? (revision => 1) : (),
                $path =~ /rerun/ ? (impact_id => $nil) : (),
                $path =~ /assign/ ? (assignee => 'you') : () } });
            $r->{status} == 400 && $r->{body} =~ /\Q$_\E/ ? ()
                : "$_: $r->{status} $r->{body}"
        } sort keys %ok;
        is("@bad", '', sprintf '%s: a name and a reason of %vd', $path,
            $blank);
    }
}
is($i->psql('select count(*) from interlock.actions'), $before,
    'and nothing was done');

$i->check_sql;
done_testing();
