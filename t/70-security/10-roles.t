#!/usr/bin/perl

# Who may not: an auditor, another site's page, another tenant, at every
# operation of fcgi/openapi.yaml, with ids that are real.  Nothing changes, and
# nobody sees what is not theirs.  Then an operator does the same and may.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use MIME::Base64 qw(encode_base64);
use Test::More;

use Interlock::Login;
use Interlock::Test;

my $i = Interlock::Test->instance(conf => 'alert_hosts = zebra.example');
my $secret = 'whsec_' . encode_base64('z' x 32, '');
my %why = (requested_by => 'dana', reason => 'to see');

# every operation: method, path, parameters, and what it asks for instead of
# an API token or a session
my @operations;
{
    my ($path, $op);
    open my $fh, '<', "$FindBin::Bin/../../fcgi/openapi.yaml" or die $!;
    while (<$fh>) {
        last if /^components:/;
        $path = $1 if m{^  (/\S*):$};
        push @operations, $op = { method => uc $1, path => $path,
            params => [ $path =~ /\{(\w+)\}/g ], by => 'token' }
            if defined $path && /^    (get|put|post|delete):$/;
        $op->{by} = $1 eq '' ? 'nobody' : $1
            if /^      security: \[\{ ?(\w*)/;
    }
}
my @changing = grep { $_->{method} ne 'GET' && $_->{by} =~ /^(?:token|owner)/ }
    @operations;
my @reading = grep { $_->{method} eq 'GET' && $_->{by} eq 'token' } @operations;
cmp_ok(scalar @changing, '>', 35, scalar(@changing) . ' that change something');
cmp_ok(scalar @reading, '>', 25, scalar(@reading) . ' that read');


# --- things to be had ------------------------------------------------------

sub ok2 {
    my ($method, $path, $role, $body, %headers) = @_;
    my $r = $i->http($method, $path, { defined $role ? (token => $role) : (),
        defined $body ? (body => $body) : (), headers => \%headers });
    die "$method $path: $r->{status} $r->{body}" if $r->{status} !~ /^2/;
    return $r->{json};
}

sub job {
    my ($key) = @_;
    return ok2(POST => '/v1/jobs', 'submit', { kind => 'zebra',
        work_key => $key, payload => { n => 1 } })->{job_id};
}

sub lease {
    my $l = ok2(POST => '/v1/leases', 'worker', { kinds => ['zebra'],
        worker => 'zebra-worker' })->{leases}[0];
    return (Authorization => "Bearer $l->{owner_token}");
}

ok2(PUT => '/v1/kinds/zebra', 'operator', { lease_seconds => 900,
    allow_fresh => JSON::PP::true });
ok2(PUT => '/v1/effect-kinds/zebra', 'operator', { send_deadline => 30 });
ok2(PUT => '/v1/limits/zebra', 'operator', { capacity => 3 });
ok2(PUT => '/v1/alerts/zebra', 'operator', { url => 'https://zebra.example/',
    conditions => ['failed'], kinds => ['tally'],
    secret => $secret });

my $done = job('zebra:done');
my %own = lease();
ok2(POST => '/v1/lease/complete', undef, { result => { zebra => 1 } }, %own);
my $failed = job('zebra:failed');
%own = lease();
my $effect = ok2(POST => '/v1/effects', undef, { name => 'letter',
    kind => 'zebra', target => 'zebra@example.org' }, %own);
ok2(POST => "/v1/effects/$effect->{effect_id}/outcome", undef, { send_id =>
    $effect->{send_id}, state => 'unknown', detail => 'the line died' }, %own);
ok2(POST => '/v1/lease/fail', undef, { error => 'zebra', retryable =>
    JSON::PP::false }, %own);
my $running = job('zebra:running');
%own = lease();
my $waiting = job('zebra:waiting');

ok2(PUT => '/v1/schedules/zebra', 'operator', { cron => '0 0 1 1 *', zone =>
    'UTC', kind => 'zebra', work_key => 'zebra-day:{date}', grace => 0 });
ok2(POST => '/v1/schedules/zebra/run', 'operator', { %why,
    date => '2025-12-31' });
# a slot of before there was the schedule, and its gap
my $gap = $i->psql(q{
    insert into interlock.slots (tenant, schedule, slot_at, subject, version,
        business_date, work_key, state, reason, check_at)
    select s.tenant, s.name, '2025-12-31Z', '', s.version, '2025-12-31',
        'zebra-day:2025-12-31', 'waiting', 'approval',
        clock_timestamp() + interval '1 hour'
    from interlock.schedules s where s.name = 'zebra';
    insert into interlock.gaps (tenant, id, schedule, slot_at, subject,
        business_date, work_key, since, why, state, opened_at, changed_at)
    select s.tenant, interlock.new_id(), s.schedule, s.slot_at, '',
        s.business_date, s.work_key, s.slot_at, 'approval', 'open',
        clock_timestamp(), clock_timestamp()
    from interlock.slots s where s.schedule = 'zebra'
    returning id});
ok2(POST => '/v1/kinds/zebra/pause', 'operator', \%why);

# one more tenant, with somebody who may do everything there
$i->cli('token', 'create', '--dsn-file', $i->dir . '/dsn', '--tenant',
    'elsewhere', '--name', 'elsewhere', '--role', 'operator', '--out',
    $i->dir . '/elsewhere');
my $theirs = Interlock::Test::slurp($i->dir . '/elsewhere') =~ s/\s+\z//r;

my %id = (job_id => $failed, work_key => 'zebra:done', effect_id =>
    $effect->{effect_id}, gap_id => $gap, inbox_id => 'kind:zebra',
    date => '2025-12-31', name => 'zebra');

# good bodies, where one is needed
my $impact = ok2(GET => '/v1/works/zebra:done/impact', 'operator')
    ->{impact_id};
my %body = (
    'POST /v1/jobs' => { kind => 'zebra', work_key => 'zebra:new' },
    'POST /v1/jobs:batch' => { jobs => [ { kind => 'zebra',
        work_key => 'zebra:new' } ] },
    'POST /v1/tickets' => { kind => 'zebra', work_key => 'zebra:new',
        requested_by => 'dana' },
    'POST /v1/leases' => { kinds => ['zebra'] },
    'POST /v1/lease/batch' => { calls => [] },
    'POST /v1/jobs/{job_id}/decide' => { %why, action => 'retry' },
    'POST /v1/redrive' => { filter => { kind => 'zebra' } },
    'POST /v1/works/{work_key}/publish' => { %why, revision => 1 },
    'POST /v1/works/{work_key}/rerun' => { %why, impact_id => $impact },
    'PUT /v1/kinds/{name}' => { lease_seconds => 77 },
    'PUT /v1/effect-kinds/{name}' => { send_deadline => 7 },
    'PUT /v1/limits/{name}' => { capacity => 77 },
    'PUT /v1/alerts/{name}' => { url => 'https://zebra.example/2',
        conditions => ['gap'], secret => $secret },
    'PUT /v1/schedules/{name}' => { cron => '0 0 2 1 *', kind => 'zebra',
        work_key => 'x:{date}' },
    'POST /v1/kinds/{name}/explain' => { work_key => 'zebra:1' },
    'POST /v1/effects' => { name => 'more', kind => 'zebra' },
    'POST /v1/effects/{effect_id}/outcome' => { send_id => $effect->{send_id},
        state => 'confirmed' },
    'POST /v1/effects/{effect_id}/resolve' => { %why,
        outcome => 'not_happened' },
    'POST /v1/schedules/{name}/run' => { %why, date => '2024-12-31' },
    'POST /v1/schedules/{name}/backfill' => { from => '2025-12-30',
        to => '2025-12-31', %why },
    'POST /v1/schedules/{name}/slots/{date}/rerun' => { %why, only => 'all',
        impact_id => 'x' },
    'POST /v1/inbox/{inbox_id}/assign' => { requested_by => 'dana',
        assignee => 'kim' },
);
my %query = ('/v1/audit' => '?work_key=zebra:done', '/v1/series' =>
    '?what=queue', '/v1/search' => '?q=zebra', '/v1/works' => '?prefix=zebra',
    '/v1/results' => '?prefix=zebra');

sub path_of {
    my ($op) = @_;
    my $path = $op->{path};
    $path =~ s/\{(\w+)\}/$id{$1} \/\/ die "no $1 for $op->{path}\n"/ge;
    return $path . ($op->{method} eq 'GET' ? $query{ $op->{path} } // '' : '');
}

# attempt(op, who, opt): who is a session, or a token's text
sub attempt {
    my ($op, $who, $opt) = @_;
    my %o = (%{ $opt // {} });
    $o{body} = $body{"$op->{method} $op->{path}"} // \%why
        if $op->{method} =~ /^P/;
    # (a stream has no end)
    my $method = $op->{path} eq '/v1/events' ? 'HEAD' : $op->{method};
    return $who->http($method, path_of($op), \%o) if ref $who;
    return $i->http($method, path_of($op), { %o, headers => {
        %{ $o{headers} // {} }, Authorization => "Bearer $who" } });
}

sub said {
    my ($r) = @_;
    return "$r->{status} " . ((ref $r->{json} eq 'HASH'
        ? $r->{json}{type} // '' : '') =~ m{([^/]*)\z})[0];
}

# What the database holds.  These move by themselves, or by a login.
my %moving = map { $_ => 1 } qw(sessions server_seen alert_scans edge_zones
    queue_looks alert_queue inbox_sweeps series_minutes series_queue
    series_decisions
    migrations sources kind_pace);
my @tables = grep { !$moving{$_} } map { $_->[0] } $i->sql(q{
    select table_name from information_schema.tables
    where table_schema = 'interlock' and table_type = 'BASE TABLE'
    order by 1});
my %with_tenant = map { $_->[0] => 1 } $i->sql(q{
    select table_name from information_schema.columns
    where table_schema = 'interlock' and column_name = 'tenant'});
cmp_ok(scalar @tables, '>', 40, scalar(@tables) . ' tables are compared');

sub holds {
    my ($tenant) = @_;
    return { map { $_->[0] => $_->[1] } $i->sql(join ' union all ', map {
        my $of = $tenant && $with_tenant{$_} ? " where tenant = $tenant" : '';
        "select '$_', count(*) || ' ' || coalesce(md5(string_agg(x::text, '|'
            order by x::text)), '') from interlock.$_ x$of" } @tables) };
}


# --- an auditor ------------------------------------------------------------

my $auditor = Interlock::Login->login($i, 'auditor');
my $operator = Interlock::Login->login($i, 'operator');
# an effect that nobody can look up is a human's, and what has happened to
# effects is sealed, a moment later
$i->wait_for(sub { $i->psql('select (select count(*) from '
    . 'interlock.effects_history) = (select count(*) from '
    . 'interlock.effects_chain) and not exists (select from '
    . "interlock.effects where state = 'unknown')") eq 't' }, 15,
    'the history to be sealed');
my $before = holds();

for my $op (@changing) {
    my $want = $op->{by} eq 'token' ? '403 forbidden'
        : '401 owner-token-invalid';
    is(said(attempt($op, $auditor)) . ', '
        . said(attempt($op, $i->token('auditor'))), "$want, $want",
        "$op->{method} $op->{path} by an auditor's session and token");
}
is_deeply(holds(), $before, 'nothing has changed');

for my $op (@reading) {
    my $r = attempt($op, $auditor);
    like($r->{status}, qr/^200$/, "GET $op->{path} by an auditor's session");
    is(attempt($op, $i->token('auditor'))->{status}, $r->{status},
        'and by the token');
    like(join(' | ', map { $r->{headers}{$_} // '-' }
        qw(content-type x-content-type-options content-security-policy)),
        qr/^(?:application\/(?:json|octet-stream)|text\/(?:plain|event-stream))
        (?:;[^|]*)?\ \|\ nosniff\ \|\ (?:default-src\ 'none'|sandbox)/x,
        'which no browser takes for a page');
}


# --- a page of another site ------------------------------------------------

for my $op (grep { $_->{by} eq 'token' } @changing) {
    is(join(', ', map { said(attempt($op, $operator, { headers => $_ })) }
        { Origin => 'http://evil.example' }, { Origin => 'null' },
        { 'Interlock-UI' => undef }, { 'Sec-Fetch-Site' => 'cross-site' }),
        join(', ', ('403 cross-origin') x 4),
        "$op->{method} $op->{path} from another site");
}
is_deeply(holds(), $before, 'nothing has changed');


# --- another tenant --------------------------------------------------------

my $stranger = Interlock::Login->login($i, $theirs);
my ($demo) = $i->psql(q{select id from interlock.tenants where name = 'demo'});
my $mine = holds($demo);

for my $op (@reading) {
    my $r = attempt($op, $stranger);
    if (@{ $op->{params} }) {
        is($r->{status}, 404, "GET $op->{path}: not another tenant's");
        is(attempt($op, $theirs)->{status}, 404, 'nor by the token');
    } else {
        like($r->{status}, qr/^(?:200|404)$/, "GET $op->{path}");
        unlike($r->{body}, qr/zebra[:-]|\Q$_\E/, 'with nothing of another')
            for join '|', $done, $failed, $running, $waiting,
                $effect->{effect_id}, $gap;
    }
}

# what is made by its name is made for the tenant who asks, so that is last
for my $op (sort { ($a->{method} eq 'PUT') <=> ($b->{method} eq 'PUT') }
    @changing)
{
    my $r = attempt($op, $stranger);
    next unless $op->{by} eq 'token' && @{ $op->{params} }
        && $op->{method} ne 'PUT' && $op->{path} !~ m{^/v1/sources/};
    is($r->{status}, 404, "$op->{method} $op->{path}: not another tenant's");
}
is_deeply(holds($demo), $mine, 'nothing of it has changed');


# --- whoever may -----------------------------------------------------------

my %did;
for my $op (sort { ($a->{method} eq 'DELETE') <=> ($b->{method} eq 'DELETE') }
    grep { $_->{by} eq 'token' } @changing)
{
    my $r = attempt($op, $operator);
    $did{ substr $r->{status}, 0, 1 }++;
    like($r->{status}, $op->{path} =~ m{^/v1/(?:jobs|jobs:batch|leases
        |lease/batch|tickets)$}x ? qr/^403$/ : qr/^(?:2..|404|409|412)$/,
        "$op->{method} $op->{path} by an operator's session: $r->{status}");
}
cmp_ok($did{2}, '>', 20, "of which $did{2} did something");
isnt(holds($demo)->{actions}, $mine->{actions}, 'which is on record');
is($i->psql(qq{select count(*) from interlock.actions
    where tenant = $demo and token_name is distinct from 'operator'}), 0,
    'each with the token of the session');

$i->check_sql;

done_testing();
