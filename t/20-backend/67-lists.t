#!/usr/bin/perl

# What operators look through: GET /v1/requests, /v1/works, /v1/leases,
# /v1/actions, /v1/search, a job's payload, and POST /v1/jobs/{id}/revoke: each
# well and badly, by each role, never what belongs to another tenant; pages
# while rows arrive; and with 100,000 rows as fast as with 2,000.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use Test::More;
use Time::HiRes qw(time);

use Interlock::FastCGI;
use Interlock::Test;

my $i = Interlock::Test->instance;
my $c = Interlock::FastCGI->of_instance($i);
my %token = map { $_ => $i->token($_) } qw(submit worker operator auditor);

for my $role (qw(submit operator)) {
    my $file = $i->dir . "/tokens/other-$role";
    my $r = $i->cli('token', 'create', '--dsn-file', $i->dir . '/dsn',
        '--tenant', 'other', '--name', $role, '--role', $role, '--out',
        $file);
    die $r->{err} if $r->{code};
    $token{"other-$role"} = Interlock::Test::slurp($file) =~ s/\s+\z//r;
}

sub call {
    my ($method, $uri, $role, $body, %headers) = @_;
    return $c->request($method, $uri, {
        defined $role ? (token => $token{$role} // $role) : (),
        headers => \%headers, defined $body ? (body => $body) : () });
}

sub problem_is {
    my ($res, $status, $name, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is("$res->{status} " . ($res->{json}{type} // $res->{body}),
        "$status https://interlock.invalid/problems/$name", $what);
}

sub items {
    my ($uri, $role) = @_;
    my $res = call(GET => $uri, $role // 'auditor');
    is($res->{status}, 200, "GET $uri") or diag $res->{body};
    return @{ $res->{json}{items} // [] };
}

sub kind {
    my ($name, %policy) = @_;
    my $r = call(PUT => "/v1/kinds/$name", 'operator', \%policy);
    is($r->{status}, 200, "(kind $name)") or diag $r->{body};
}

sub submit {
    my ($kind, $key, $payload, $idem) = @_;
    return call(POST => '/v1/jobs', 'submit', { kind => $kind,
        work_key => $key, payload => $payload // {} },
        defined $idem ? ('Idempotency-Key' => $idem) : ());
}

my %why = (requested_by => 'dana', reason => 'seen to');
kind('l-one', overlap => 'skip', lease_seconds => 30);


# --- roles, parameters, cursors --------------------------------------------

my $nil = '00000000-0000-7000-8000-000000000000';
my %lists = (
    '/v1/requests' => [ qw(decision=maybe since=noon until=1 kind=A%20b
        source=%2F work_key=a::b cursor=x limit=0 limit=201 nosuch=1
        idempotency_key=%01 kind=a&kind=b) ],
    '/v1/works' => [ qw(state=done kind=%FF prefix=%07 cursor=%21 limit=x
        cursor=YTo6Yg) ],
    '/v1/leases' => [ qw(kind=A worker=%00 cursor=1 job=x) ],
    '/v1/actions' => [ qw(what=%0A by=%0A since=1 cursor=x cursor=-1) ],
    '/v1/kinds' => [ qw(cursor=A%2F limit=1000 name=x) ],
    '/v1/search' => [ '', qw(q= q=%20 q=%0A q=%FF x=1) ],
);
for my $list (sort keys %lists) {
    my $good = $list eq '/v1/search' ? "$list?q=x" : $list;
    is(join(' ', map { call(GET => $good, $_)->{status} }
        qw(auditor operator worker submit), undef), '200 200 403 403 401',
        "$list: who may see it");
    for my $query (@{ $lists{$list} }) {
        my $res = call(GET => "$list?$query", 'auditor');
        is($res->{status}, 400, "$list?$query") or diag $res->{body};
    }
}


# --- a story, and how each list tells it ------------------------------------

my $job = submit('l-one', 'l:1', { big => 12345678901234567890 }, 'k-1')
    ->{json}{job_id};
submit('l-one', 'l:1', { big => 12345678901234567890 }, 'k-1');
my $skipped = submit('l-one', 'l:1', { other => 1 }, 'k-2');
is($skipped->{json}{decision}, 'skipped', '(a request that was skipped)');

my @r = items('/v1/requests?work_key=l:1');
is(join(' ', map { "$_->{decision}/$_->{code}/$_->{idempotency_key}" } @r),
    'skipped/200/k-2 duplicate/202/k-1 accepted/202/k-1',
    'requests, newest first');
is($r[1]{first_request}, $job, 'whose answer a repeat got');
is($r[1]{edge}, JSON::PP::false, 'interlockd saw it');
is(join(' ', map { $_->{decision} } items('/v1/requests?idempotency_key=k-1'
    . '&source=api&kind=l-one')), 'duplicate accepted', 'by its key');

my ($w) = items('/v1/works?prefix=l:');
is("$w->{work_key} $w->{state} $w->{active_job_id} $w->{waiting} "
    . "$w->{last_status}", "l:1 queued $job 0 queued", 'a work');
is(scalar items('/v1/leases'), 0, 'nobody has anything');

my $lease = call(POST => '/v1/leases', 'worker', { kinds => ['l-one'],
    worker => 'w <b>1</b>' })->{json}{leases}[0];
my ($l) = items('/v1/leases?kind=l-one&worker=w%20%3Cb%3E1%3C%2Fb%3E');
is("$l->{job_id} $l->{fence} $l->{attempt} $l->{worker} $l->{work_key}",
    "$job 1 1 w <b>1</b> l:1", 'a lease');
ok(!exists $l->{owner_token} && $l->{expires_at} gt $l->{granted_at},
    'as long as it is, and nothing to act with');
is((items('/v1/works?state=running'))[0]{work_key}, 'l:1', 'a work that runs');


# --- the lease is taken away ------------------------------------------------

my $revoke = "/v1/jobs/$job/revoke";
is(join(' ', map { call(POST => $revoke, $_, \%why)->{status} }
    qw(auditor worker submit), undef), '403 403 403 401',
    'only operators take leases away');
problem_is(call(POST => $revoke, 'operator', { reason => 'x' }), 400,
    'field-invalid', 'somebody has to answer for it');
problem_is(call(POST => $revoke, 'other-operator', \%why), 404, 'not-found',
    'another tenant sees no such job');
problem_is(call(POST => "/v1/jobs/$nil/revoke", 'operator', \%why), 404,
    'not-found', 'nor does anybody see one that is not there');
problem_is(call(POST => '/v1/jobs/x/revoke', 'operator', \%why), 404,
    'not-found', 'or cannot be');
is((items('/v1/leases'))[0]{fence}, 1, 'all that changed nothing');

# A worker that waits is told at once.
my $taken = call(POST => $revoke, 'operator', \%why);
is("$taken->{status} $taken->{json}{status}", '200 queued', 'taken away');
my $next = call(POST => '/v1/leases', 'worker', { kinds => ['l-one'],
    worker => 'w2', wait => 10 })->{json}{leases}[0];
is("$next->{job_id} $next->{fence}", "$job 2", 'and has the next owner');
problem_is($c->request(POST => '/v1/lease/complete', {
    token => $lease->{owner_token}, body => {} }), 409, 'lease-lost',
    'the one before is refused');
is($c->request(POST => '/v1/lease/complete', {
    token => $next->{owner_token}, body => {} })->{status}, 200,
    'the next one is heard');
problem_is(call(POST => $revoke, 'operator', \%why), 409, 'job-final',
    'there is nothing to take');
my $idle = submit('l-one', 'l:2')->{json}{job_id};
problem_is(call(POST => "/v1/jobs/$idle/revoke", 'operator', \%why), 409,
    'job-not-running', 'nor of what waits');

my ($a, @more) = items('/v1/actions?what=job_revoke');
is("$a->{what} $a->{action} $a->{job_id} $a->{work_key} $a->{requested_by} "
    . "$a->{reason} $a->{token_name} $a->{detail}{worker} " . @more,
    "action job_revoke $job l:1 dana seen to operator w <b>1</b> 0",
    'one word of it, of who and why');
my $audit = call(GET => '/v1/audit?work_key=l:1', 'auditor')->{json};
my ($same) = grep { $_->{what} eq 'action' } @{ $audit->{timeline} };
is_deeply({ map { $_ => $a->{$_} } keys %$same }, $same,
    'as the audit tells it');
is((grep { $_->{what} eq 'ended' } @{ $audit->{timeline} })[0]{error},
    'lease taken away by dana: seen to', 'and why the attempt ended');


# --- search -----------------------------------------------------------------

sub found { join ', ', map { "$_->{what} ($_->{why})" } items(@_) }

is(found("/v1/search?q=$job"), 'job (job id), request (request id)', 'an id');
is(found("/v1/search?q=%20$r[0]{request_id}%20"), 'request (request id)',
    'of a request, with blanks around');
is(found('/v1/search?q=k-2'), 'request (idempotency key)',
    'an idempotency key');
is(found('/v1/search?q=l:1'), 'work (work key)', 'a work key');
is(found('/v1/search?q=l:'), 'work (work key begins so), '
    . 'work (work key begins so)', 'how some begin');
is(found("/v1/search?q=$_", 'other-operator'), '', "not another tenant's: $_")
    for $job, 'k-2', 'l:1', 'l:';


# --- payloads ---------------------------------------------------------------

my $p = call(GET => "/v1/jobs/$job/payload", 'auditor');
is($p->{body}, '{"big":12345678901234567890}', 'as it came');
is($p->{headers}{'content-type'}, 'text/plain; charset=utf-8', 'as text');
is($p->{headers}{'x-content-type-options'}, 'nosniff', 'and nothing else');
like($p->{headers}{'content-disposition'}, qr/^attachment/, 'to be saved');
is($p->{headers}{'interlock-payload-type'}, 'application/json',
    'what its sender called it');
is(join(' ', map { call(GET => "/v1/jobs/$job/payload", $_)->{status} }
    qw(operator worker submit other-operator), undef), '200 403 403 404 401',
    'for whom');
problem_is(call(GET => "/v1/jobs/$_/payload", 'auditor'), 404, 'not-found',
    "no such job: $_") for $nil, 'x';

$i->psql("set session_replication_role = replica; update interlock.payloads
    set payload = '\\x3c7363726970743eff00', content_type = E'text/html\\r\\nX: y'
    where job_id = '$job'");
$p = call(GET => "/v1/jobs/$job/payload", 'auditor');
is($p->{body}, "<script>\xff\0", 'any bytes');
is($p->{headers}{'content-type'}, 'application/octet-stream',
    'which no browser runs');
is($p->{headers}{'interlock-payload-type'} // $p->{headers}{x}, undef,
    'a type that would end a header line is left out');


# --- with 2,000 rows, and with 100,000 ---------------------------------------

my @timed = (
    [ requests => '/v1/requests' ],
    [ 'of a work key' => '/v1/requests?work_key=m:77:x' ],
    [ 'of a hot work key' => '/v1/requests?work_key=m:hot' ],
    [ 'of an idempotency key' => '/v1/requests?idempotency_key=i-777' ],
    [ 'of a day long ago' => '/v1/requests?since=2026-01-05T00:00:00Z'
        . '&until=2026-01-06T00:00:00Z' ],
    [ jobs => '/v1/jobs' ],
    [ 'held ones' => '/v1/jobs?status=held' ],
    [ 'failed ones' => '/v1/jobs?status=failed' ],
    [ 'running ones' => '/v1/jobs?status=running' ],
    [ 'queued ones' => '/v1/jobs?status=queued' ],
    [ 'of a hot work key' => '/v1/jobs?work_key=m:hot' ],
    [ works => '/v1/works' ],
    [ 'with a prefix' => '/v1/works?prefix=m:77' ],
    [ 'that run' => '/v1/works?state=running' ],
    [ 'held ones' => '/v1/works?state=held' ],
    [ leases => '/v1/leases' ],
    [ actions => '/v1/actions' ],
    [ 'a search' => '/v1/search?q=m:77' ],
    [ 'of an idempotency key' => '/v1/search?q=i-777' ],
);

# The least of several: what others do on this machine does not count.
sub timed {
    my ($uri) = @_;
    my $best;
    for (1 .. 6) {
        my $t = time;
        my $res = call(GET => $uri, 'auditor');
        $t = time - $t;
        die "$uri: $res->{status} $res->{body}" if $res->{status} != 200;
        $best = $t if !defined $best || $t < $best;
    }
    return $best;
}

sub rows { $i->psql("\\set from $_[0]\n\\set to $_[1]\n" . <<'SQL') }
set session_replication_role = replica;
create temp table src as
select t.id as tenant, n, at,
    (substr(interlock.id_at(at)::text, 1, 14) || '7000-8000-'
        || lpad(to_hex(n), 12, '0'))::uuid as id,
    case when n % 10 in (0, 9) then 'm:hot' else 'm:' || n / 3 || ':x' end as key,
    case when n = 5 then 'rare' else 'l-one' end as kind,
    case when n % 2 = 0 then 'duplicate' else 'accepted' end as decision
from interlock.tenants t, generate_series(:from, :to) n
cross join lateral (select timestamptz '2026-01-01Z'
    + n * interval '1 minute' as at) y
where t.name = 'demo';
insert into interlock.requests (tenant, id, arrived_at, source,
    idempotency_key, kind, work_key, decision, code, job_id, first_request)
select tenant, id, at, 'api', 'i-' || n / 2, kind, key, decision, 202,
    case when decision = 'accepted' then id end,
    case when decision = 'duplicate' then id end
from src order by n;
insert into interlock.jobs (tenant, id, kind, kind_version, work_key, status,
    exclusive, decision, source, priority, order_key, run_at, created_at,
    attempts, started_at, finished_at, revision, error)
select tenant, id, kind, 1, key, s, false, 'accepted', 'api', 0, at, at, at,
    1, at, case when s in ('succeeded', 'failed') then at end,
    case s when 'succeeded' then 1 end, 'x'
from src cross join lateral (select case when n % 20 = 1 then 'failed'
    when n % 20000 = 3 then 'held' when n % 20 = 7 then 'running'
    else 'succeeded' end) y (s)
where decision = 'accepted' order by n;
insert into interlock.leases (tenant, attempt_id, claim_id, job_id, kind,
    work_key, exclusive, fence, attempt, worker, granted_at, expires_at,
    runtime_end, lease_seconds)
select tenant, gen_random_uuid(), gen_random_uuid(), id, kind, key, false, 1,
    1, 'm', at, clock_timestamp() + interval '1 hour', clock_timestamp()
    + interval '2 hours', 30
from src where n % 20 = 7;
insert into interlock.works (tenant, work_key, kind, fence, first_request,
    created_at)
select distinct on (key) tenant, key, kind, 1, id, at from src
order by key, n desc
on conflict do nothing;
insert into interlock.actions (tenant, at, what, target, requested_by)
select tenant, at, 'made', n, 'm' from src order by n;
SQL

# The first page is full with either, and of the same sort.
rows(98_001, 100_000);
my @before = map { timed($_->[1]) } @timed;
rows(1, 98_000);
my @after = map { timed($_->[1]) } @timed;
for my $n (0 .. $#timed) {
    my ($what, $uri) = @{ $timed[$n] };
    cmp_ok($after[$n], '<', 4 * $before[$n] + 0.2, sprintf
        '%s: %.1f ms with 2,000 rows, %.1f ms with 100,000', $uri,
        1000 * $before[$n], 1000 * $after[$n]);
}

is(scalar items('/v1/requests?work_key=m:hot&limit=200'), 200,
    'they are all there: of a hot work key');
is(scalar items('/v1/requests?since=2026-01-05T00:00:00Z&'
    . 'until=2026-01-05T02:00:00Z&limit=200'), 120, 'of two hours');
is(scalar items('/v1/jobs?status=held'), 5, 'held ones');
is(scalar items('/v1/jobs?status=failed&limit=200'), 200, 'failed ones');
is(scalar items('/v1/jobs?status=running&limit=200'), 200, 'running ones');
is(scalar items('/v1/works?state=held'), 5, 'works that are held');

# A filter that no index knows: all is found, page by page, and no page looks
# at more than so many rows.
for ([ '/v1/requests?kind=rare', 5 ], [ '/v1/jobs?kind=rare', 3 ],
     [ '/v1/works?kind=rare', 2 ], [ '/v1/actions?by=dana', 5 ])
{
    my ($uri, $most) = @$_;
    my ($n, $pages, $next) = (0, 0, undef);
    do {
        my $res = call(GET => $uri . (defined $next ? "&cursor=$next" : ''),
            'auditor');
        $n += @{ $res->{json}{items} };
        $next = $res->{json}{next};
    } while (++$pages < 20 && defined $next);
    is($n, 1, "$uri: found");
    cmp_ok($pages, '<=', $most, "in $pages pages");
    cmp_ok($pages, '>', 1, 'of which none looked at all');
}

for ([ 'requests_list(1, null, null, %s, null, null, null, null, 50, null)',
       'requests' ],
     [ 'jobs_list(1, %s, null, null, null, null, 50, null)', 'jobs' ],
     [ 'works_list(1, null, %s, null, 50, null)', 'works' ],
     [ 'actions_list(1, %s, null, null, null, 50, null)', 'actions' ])
{
    my ($call, $table) = @$_;
    $call = sprintf $call, "'nosuch'";
    my ($read) = map { $_->[0] } grep { defined $_->[0] && $_->[0] ne '' }
        $i->sql("begin; select from interlock.$call;
            select sum(coalesce(idx_tup_fetch, 0)
                + coalesce(seq_tup_read, 0))
            from pg_stat_xact_user_tables where schemaname = 'interlock'
                and relname ~ '^$table(_live|(_ended)?_(default|\\d+w\\d+))?\$'
            ; commit");
    cmp_ok($read, '<=', 2 * 25000 + 10, "$table: a page reads $read rows");
    cmp_ok($read, '>', 1000, 'and does look');
}


# --- pages while rows arrive --------------------------------------------------

sub walk {
    my ($uri, $field, $between) = @_;
    my (@got, $next);
    do {
        my $res = call(GET => $uri . (defined $next ? "&cursor=$next" : ''),
            'auditor');
        push @got, map { $_->{$field} } @{ $res->{json}{items} };
        $next = $res->{json}{next};
        $between->(scalar @got) if defined $next;
    } while (defined $next && @got < 2000);
    return @got;
}

my @then = walk('/v1/requests?kind=l-one&since=2026-03-11T00:00:00Z'
    . '&source=api&limit=50&until=2026-11-01T00:00:00Z', 'request_id', sub { });
is(scalar @then, 641, 'a list of several pages');
my @now = walk('/v1/requests?kind=l-one&since=2026-03-11T00:00:00Z'
    . '&source=api&limit=50', 'request_id',
    sub { submit('l-one', "late:$_[0]", {}, "late-$_[0]") });
ok(join(' ', @now[-@then .. -1]) eq join(' ', @then),
    'what arrives meanwhile moves none of them');
my %seen;
is(scalar(grep { $seen{$_}++ } @now), 0, 'nor shows one twice');

done_testing;
