# Schedules over HTTP: who may, what is refused and how that is said, a
# hundred thousand subjects in bounded memory, and a slot that fires at its
# time however seldom interlockd sweeps.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP ();
use POSIX qw(strftime);
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::Load qw(run_at_once);
use Interlock::Session;
use Interlock::Test;

my $i = Interlock::Test->instance(conf => 'recover_interval = 60s');
my $db = Interlock::Session->new($i->dsn('admin'));
my %who = (requested_by => 'dana', reason => 'month end');
my $nobody = '00000000-0000-7000-8000-000000000000';

sub one { return ($db->do($_[0]))[0][0] }

sub call {
    my ($role, $method, $path, $body) = @_;

    return $i->http($method, $path, { token => $role, body => $body,
        headers => { 'content-type' => 'application/json' },
        timeout => 60 });
}

sub op { return call('operator', @_) }

sub put {
    my ($name, %doc) = @_;

    return op(PUT => "/v1/schedules/$name", { cron => '0 9 * * *',
        zone => 'Asia/Seoul', kind => 'free', subjects => [qw(a b)],
        work_key => "$name:{subject}:{date}", %doc });
}

sub problem {
    my ($res, $status, $type, $like, $what) = @_;

    is($res->{status}, $status, "$what: $status") or diag($res->{body});
    is($res->{json}{type}, "https://interlock.invalid/problems/$type",
        "$what: $type");
    like($res->{json}{detail}, $like, "$what: says what") if $like;
}


# --- the sample ---------------------------------------------------------------

my $sample = op(GET => '/v1/schedules/daily-sales-9am')->{json};
is($sample->{zone}, 'Asia/Seoul', 'the sample is of Seoul');
is($sample->{subject_count}, 3, 'has three subjects');
ok($sample->{paused}, 'and is paused');
is($sample->{next_at}, undef, 'so that nothing fires');


# --- bad input ------------------------------------------------------------------

is(put('good')->{status}, 200, 'a schedule');

for my $bad (
    [ { cron => '61 * * * *' }, qr/cron.*minute/i ],
    [ { cron => '* * * *' }, qr/cron/ ],
    [ { cron => '0 0 * * fooday' }, qr/fooday/ ],
    [ { zone => 'Asia/Soul' }, qr{Asia/Soul} ],
    [ { work_key => 'x:{subjct}:{date}' }, qr/subjct/ ],
    [ { work_key => 'x:{date}' }, qr/subject/ ],
    [ { payload => { a => '{when}' } }, qr/when/ ],
    [ { subjects => [qw(a b a)] }, qr/"a" twice/ ],
    [ { subjects => 'a' }, qr/array/ ],
    [ { subjects => [1] }, qr/strings/ ],
    [ { subjects => ["a\nb"] }, qr/control/ ],
    [ { subjects => ['x' x 129] }, qr/1 to 128 bytes/ ],
    [ { cron => "0 9 * * *\n" }, qr/line break/ ],
    [ { cron => '0 9 L * *' }, qr/"L" is no value/ ],
    [ { name => 'good' }, qr/"name" must be the name in the path/ ],
    [ { payload => 'x' x 65536 }, qr/payload.*65536/ ],
    [ { start => '2026-02-01T00:00:00Z', end => '2026-01-01T00:00:00Z' },
      qr/after "start"/ ],
    [ { start => 'soon' }, qr/start/ ],
    [ { gap => 'skp' }, qr/run_after, skip/ ],
    [ { fold => 'third' }, qr/first, second, both/ ],
    [ { catch_up => 'some' }, qr/latest, all, skip/ ],
    [ { grace => -1 }, qr/grace/ ],
    [ { grace => 1.5 }, qr/grace/ ],
)
{
    my ($doc, $like) = @$bad;
    problem(put('bad', %$doc), 400, 'field-invalid', $like,
        JSON::PP->new->canonical->encode($doc));
}
for my $payload (5, 'text', [1, '{date}'], JSON::PP::true, { a => '{date}' },
    undef)
{
    my $res = put('any', payload => $payload);
    my $json = JSON::PP->new->canonical->allow_nonref;
    is($json->encode($res->{json}{payload}), $json->encode($payload),
        'a payload is any JSON');
}
is(op(DELETE => '/v1/schedules/any')->{status}, 204, 'that is enough');
for my $path (qw(kinds/free limits/crm effect-kinds/mail alerts/a)) {
    problem(op(PUT => "/v1/$path", { name => 'other' }), 400, 'field-invalid',
        qr/name in the path/, "another name in $path");
}
problem(put('bad', colour => 'red'), 400, 'unknown-field', qr/colour/,
    'a field that is none');
problem(put('bad', kind => 'nosuch'), 404, 'kind-unknown', qr/nosuch/,
    'a kind that is none');
problem(op(PUT => '/v1/schedules/Bad', '{}'), 400, 'field-invalid',
    qr/a-z/, 'a name that is none');
problem(op(PUT => '/v1/schedules/bad', $_), 400, 'json-invalid', undef,
    "as JSON '$_'") for '', '[]', '{', '{"cron":"\\u0000"}';
is(op(GET => '/v1/schedules/bad')->{status}, 404, 'none of them was made');


# --- who may ---------------------------------------------------------------------

my %may = (
    'GET /v1/schedules' => 'operator auditor',
    'GET /v1/schedules/good' => 'operator auditor',
    'PUT /v1/schedules/good' => 'operator',
    'POST /v1/schedules/good/pause' => 'operator',
    'POST /v1/schedules/good/resume' => 'operator',
    'GET /v1/schedules/good/slots' => 'submit worker operator auditor',
    'GET /v1/schedules/good/slots/2026-07-24/impact' => 'operator auditor',
    'POST /v1/schedules/good/slots/2026-07-24/rerun' => 'operator',
    'POST /v1/schedules/good/run' => 'operator',
    'POST /v1/schedules/good/backfill' => 'operator',
    'GET /v1/gaps' => 'operator auditor',
    "POST /v1/gaps/$nobody/approve" => 'operator',
    "POST /v1/gaps/$nobody/dismiss" => 'operator',
    'GET /v1/works/a:b/impact' => 'operator auditor',
    'POST /v1/works/a:b/rerun' => 'operator',
    'DELETE /v1/schedules/good' => 'operator',
);
for my $route (sort keys %may) {
    my ($method, $path) = split ' ', $route;
    my %body = $method =~ /^P/ ? (body => '{"nosuch":1}') : ();
    is($i->http($method, $path, { %body })->{status}, 401,
        "$route: not without a token");
    for my $role (qw(submit worker auditor)) {
        my $res = call($role, $method, $path, $body{body});
        if ($may{$route} =~ /\b$role\b/) {
            isnt($res->{status}, 403, "$route: $role may");
        } else {
            is($res->{status}, 403, "$route: $role may not");
        }
    }
    problem(call('operator', $method, $path, $body{body}), 400,
        'unknown-field', qr/nosuch/, $route) if %body;
}


# --- what is not there, and what is not said ----------------------------------------

is(put('good')->{status}, 200, 'the schedule again');
for my $path (qw(pause resume run backfill)) {
    my %more = $path eq 'run' ? (date => '2026-07-24')
        : $path eq 'backfill' ? (from => '2026-07-01', to => '2026-07-02')
        : ();
    problem(op(POST => "/v1/schedules/nosuch/$path", { %who, %more }), 404,
        'not-found', qr/schedule/, "$path of no schedule");
    next if $path eq 'backfill';
    for my $left (qw(requested_by reason)) {
        my %body = (%who, %more);
        delete $body{$left};
        problem(op(POST => "/v1/schedules/good/$path", \%body), 400,
            'field-invalid', qr/$left/, "$path without $left");
    }
}
for my $date (qw(2026-02-29 2026-13-01 24.7.2026 today 0000-01-01)) {
    problem(op(POST => '/v1/schedules/good/run', { %who, date => $date }),
        400, 'field-invalid', qr/date/, "a run of $date");
    problem(op(GET => "/v1/schedules/good/slots?from=$date"), 400,
        'field-invalid', qr/from/, "slots from $date");
    problem(op(GET => "/v1/schedules/good/slots/$date/impact"), 400,
        'field-invalid', qr/business date/, "the impact of $date");
    problem(op(POST => "/v1/schedules/good/slots/$date/rerun", { %who,
        impact_id => 'x', only => 'all' }), 400, 'field-invalid',
        qr/business date/, "a rerun of $date");
}
problem(op(POST => '/v1/schedules/good/run', { %who, date => '2099-01-01' }),
    400, 'field-invalid', qr/future/, 'a run of what is to come');
problem(op(POST => "/v1/schedules/good/$_->[0]", { %who, %{ $_->[1] },
    subjects => ['x' x 129] }), 400, 'field-invalid', qr/subjects.*128/,
    "$_->[0] of a long subject") for [ run => { date => '2026-07-24' } ],
    [ backfill => { from => '2026-07-01', to => '2026-07-02' } ];
problem(op(POST => '/v1/schedules/good/run', { %who, date => '2026-07-24',
    subjects => $_ }), 400, 'field-invalid', qr/subjects/, 'a run of '
    . JSON::PP->new->encode($_)) for [], [1], 'a', ['nosuch'];
problem(op(POST => '/v1/schedules/good/backfill', { from => '2026-07-02',
    to => '2026-07-01' }), 400, 'field-invalid', undef,
    'a range that ends before it starts');
problem(op(POST => '/v1/schedules/good/backfill', { %who,
    plan_id => $nobody }), 404, 'not-found', qr/plan/, 'a plan of none');
problem(op(POST => '/v1/schedules/good/backfill', { %who, plan_id => $nobody,
    from => '2026-07-02' }), 400, 'field-invalid', qr/from/,
    'a plan with a range');
problem(op(GET => "/v1/schedules/good/slots?$_"), 400, 'field-invalid',
    undef, "slots by $_") for 'cursor=x', 'limit=0', 'limit=201',
    'from=2026-07-02&to=2026-07-01';
is(op(GET => '/v1/schedules/good/slots?from=2026-07-01&to=2026-07-01')->{status},
    200, 'slots of one date');
problem(op(GET => "/v1/gaps?$_"), 400, 'field-invalid', undef, "gaps by $_")
    for 'state=lost', 'schedule=A', 'cursor=.', 'limit=x';
is(op(GET => "/v1/gaps?$_")->{body}, op(GET => '/v1/gaps')->{body},
    "gaps by $_: an empty one does not count")
    for 'schedule=', 'schedule', 'state=&schedule=';
for my $do (qw(approve dismiss)) {
    problem(op(POST => "/v1/gaps/$_/$do", \%who), 404, 'not-found', qr/gap/,
        "$do $_") for $nobody, 'nosuch';
}


# --- run, and a plan ------------------------------------------------------------------

my $run = op(POST => '/v1/schedules/good/run', { %who,
    date => '2026-07-24' });
is($run->{json}{admitted}, 2, 'a date is run') or diag($run->{body});
is(one("select string_agg(work_key, ' ' order by work_key) from"
    . ' interlock.jobs'), 'good:a:2026-07-24 good:b:2026-07-24',
    'under its keys');

my %range = (from => '2026-07-20', to => '2026-07-22');
my $plan = op(POST => '/v1/schedules/good/backfill', \%range);
is($plan->{status}, 200, 'a plan needs no name') or diag($plan->{body});
is($plan->{json}{count}, 6, 'of three dates for two subjects');
is(one('select count(*) from interlock.jobs'), 2, 'runs nothing');
for (1, 2) {
    my $done = op(POST => '/v1/schedules/good/backfill', { %who,
        plan_id => $plan->{json}{plan_id} });
    is($done->{json}{admitted}, 6, 'carried out, it admits them')
        or diag($done->{body});
    is(one('select count(*) from interlock.jobs'), 8, 'once');
}

# A plan is of what its schedule meant when it was made.
my $backfill = '/v1/schedules/good/backfill';
my @plans = map { op(POST => $backfill, { from => '2026-06-01',
    to => "2026-06-0$_" })->{json}{plan_id} } 1, 2;
is(put('good', payload => { n => 1 })->{status}, 200, 'the schedule changes');
problem(op(POST => $backfill, { %who, plan_id => $plans[0] }), 409,
    'plan-expired', qr/changed since/, 'a plan of before');
is(op(POST => $backfill, { %who, plan_id => $plan->{json}{plan_id} })
    ->{json}{admitted}, 6, 'what was carried out is answered again');
is(op(DELETE => '/v1/schedules/good')->{status}, 204, 'it is deleted');
problem(op(POST => $backfill, { %who, plan_id => $plans[1] }), 404,
    'not-found', undef, 'a plan of what is gone');
is(put('good')->{status}, 200, 'it is made anew');
problem(op(POST => $backfill, { %who, plan_id => $plans[1] }), 409,
    'plan-expired', qr/changed since/, 'a plan of its forerunner');
is(one('select count(*) from interlock.jobs'), 8, 'runs nothing');

# Too long a range is refused before it costs anything.
is(put('minutes', cron => '* * * * *', work_key => 'm:{subject}:{slot}')
    ->{status}, 200, 'a schedule of minutes');
my $today = strftime('%Y-%m-%d', gmtime);
for my $years (1, 2, 9) {
    my $t0 = time;
    my $from = (substr($today, 0, 4) - $years) . '-01-02';
    problem(op(POST => '/v1/schedules/minutes/backfill', { from => $from,
        to => $today }), 400, 'field-invalid', qr/more than 100000 works/,
        "$years years of minutes");
    cmp_ok(time - $t0, '<', 5, 'soon');
}

# What a work was made of may be gone: then nothing can say what it would do.
my $gone = 'good:a:2026-07-24';
$db->do('set session_replication_role = replica');
$db->do("create temp table payload as select p.* from interlock.payloads p,"
    . " interlock.jobs j where j.work_key = '$gone' and p.tenant = j.tenant"
    . ' and p.job_id = j.id');
$db->do('delete from interlock.payloads p using payload x'
    . ' where p.tenant = x.tenant and p.job_id = x.job_id');
problem(op(GET => "/v1/works/$gone/impact"), 410, 'pruned', undef,
    'the impact of what is pruned');
problem(op(POST => "/v1/works/$gone/rerun", { %who, impact_id => 'x' }), 410,
    'pruned', undef, 'a rerun of it');
$db->do('insert into interlock.payloads select * from payload');
$db->do('set session_replication_role = origin');


# --- what is still to come up ---------------------------------------------------------

my $ahead = op(GET => '/v1/schedules/good')->{json}{next_at};
my ($day) = one("select interlock.slot_date(v, '$ahead') from"
    . " interlock.schedules s join interlock.schedule_versions v"
    . " using (tenant, name, version) where s.name = 'good'");
my $later = op(GET => "/v1/schedules/good/slots/$day/impact");
is_deeply([ @{ $later->{json} }{qw(subjects missing not_due)} ], [ 0, 0, 2 ],
    'a slot that is still to come up is not missing') or diag($later->{body});
is($later->{json}{works}[0]{state}, 'not_due', 'as each of its works says');
my $none = op(POST => "/v1/schedules/good/slots/$day/rerun", { %who,
    only => 'missing', impact_id => $later->{json}{impact_id} });
is($none->{status}, 200, 'a rerun of what is missing') or diag($none->{body});
is($none->{json}{admitted}, 0, 'leaves it alone');
is(one('select count(*) from interlock.jobs'), 8, 'nothing is run');
problem(op(GET => '/v1/schedules/good/slots/2026-01-01/impact'), 404,
    'not-found', undef, 'a date before the schedule');

# A date that was run by hand, and canceled: two reruns at once with one impact.
like(op(POST => "/v1/jobs/$_->{job_id}/cancel", \%who)->{status}, qr/^20/,
    "$_->{work_key} is canceled") for @{ $run->{json}{jobs} };
my $path = '/v1/schedules/good/slots/2026-07-24';
my $seen = op(GET => "$path/impact");
is($seen->{json}{failed}, 2, 'two came to nothing') or diag($seen->{body});
my $both = run_at_once(processes => 2, url => $i->url, requests => [ map +{
    id => $_, path => "$path/rerun", headers => {
        'content-type' => 'application/json',
        authorization => 'Bearer ' . $i->token('operator') },
    body => JSON::PP::encode_json({ %who, only => 'failed',
        impact_id => $seen->{json}{impact_id} }) }, 1, 2 ]);
is_deeply([ sort map { $_->{status} } @$both ], [ 200, 412 ],
    'one of two reruns with one impact runs')
    or diag(map { $_->{body} } @$both);
is(one("select count(*) from interlock.jobs where source = 'rerun'"), 2,
    'each work once');


# --- many subjects ---------------------------------------------------------------------

my @many = map { sprintf 'customer-%06d', $_ } 1 .. 100_000;

sub peak {
    my ($kb) = Interlock::Test::slurp('/proc/' . $i->backend_pid . '/status')
        =~ /^VmHWM:\s+(\d+)/m;
    return $kb / 1024;
}

my $peak = peak();
my $big = put('many', subjects => \@many);
is($big->{status}, 200, 'a schedule of 100,000 subjects')
    or diag($big->{body});
is($big->{json}{subject_count}, 100_000, 'has them all');
is(one("select count(distinct subject) from interlock.schedule_subjects"
    . " where name = 'many'"), 100_000, 'each of them');
problem(put('more', subjects => [ @many, 'one' ]), 400, 'field-invalid',
    qr/100000/, 'one more');
problem(put('more', subjects => [ @many[0 .. 49_999], $many[7] ]), 400,
    'field-invalid', qr/customer-000008" twice/, 'one of many twice');
cmp_ok(length op(GET => '/v1/schedules/many')->{body}, '<', 10_000,
    'they are not shown');
my $some = op(POST => '/v1/schedules/many/run', { %who,
    date => '2026-07-24', subjects => [ @many[1 .. 1_200] ] });
is($some->{status}, 200, '1,200 of them are run') or diag($some->{body});
is($some->{json}{admitted}, 1_200, 'step by step');
is(scalar @{ $some->{json}{jobs} }, 200, '200 are named');
cmp_ok(peak() - $peak, '<', 64, sprintf
    'all that took %.0f MB at most', peak() - $peak);


# --- at its time -------------------------------------------------------------------------

# interlockd sweeps once a minute here; only that it knows when the next slot
# is due makes it fire in between.
my $at = (int(one('select extract(epoch from clock_timestamp())') / 60) + 1)
    * 60;
$at += 60 if $at - time < 15;
is(put('sharp', cron => '* * * * *', work_key => 'sharp:{subject}:{slot}',
    start => strftime('%Y-%m-%dT%H:%M:%SZ', gmtime $at), end =>
    strftime('%Y-%m-%dT%H:%M:%SZ', gmtime $at + 1))->{status}, 200,
    'a schedule of one minute');
$i->restart_backend;            # its first sweep sees the schedule
my ($late) = $i->wait_for(sub {
    ($db->do("select extract(epoch from max(created_at) - max(slot_at)) from"
        . " interlock.slots where schedule = 'sharp' having count(*) = 2"))
        [0];
}, 140, 'the slot');
cmp_ok($late->[0], '<', 5, sprintf 'it fires %.3f s after its time',
    $late->[0]);

my $m = $i->metrics;
ok(exists $m->{'interlock_schedule_gaps{schedule="sharp",tenant="demo"}'},
    'its gaps are counted')
    or diag(join "\n", grep { /schedule/ } sort keys %$m);

is(op(DELETE => '/v1/schedules/good')->{status}, 204, 'deleted');
is(op(DELETE => '/v1/schedules/good')->{status}, 404, 'it is gone');
is(op(GET => '/v1/schedules/good/slots')->{status}, 200,
    'what became of its slots is not');

$i->check_sql;

done_testing();
