#!/usr/bin/perl

# A date of a schedule of which some subjects failed: the rerun is of these
# alone, by whoever saw its impact, and nothing is sent twice, by the record
# of the provider itself.  A date run by hand takes no slot away, and what a
# schedule was before it was changed never fires.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use POSIX qw(strftime);
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::Provider;
use Interlock::Session;
use Interlock::Test;

my ($i, $provider) = Interlock::Provider->beside;
my $db = Interlock::Session->new($i->dsn('admin'));
my %who = (requested_by => 'dana', reason => 'the CRM is back');

sub op {
    my ($method, $path, $body) = @_;

    return $i->http($method, $path, { token => 'operator', body => $body });
}

sub one { return ($db->do($_[0]))[0][0] }
sub now { return one('select extract(epoch from clock_timestamp())') }
sub rfc { return strftime('%Y-%m-%dT%H:%M:%SZ', gmtime $_[0]) }

sub post {
    my ($path, $token, $body) = @_;

    return $i->http(POST => $path, { body => $body,
        headers => { authorization => "Bearer $token" } });
}

# Claims n jobs of a kind and works them off: each charges its subject and
# completes, or does with it what is said: 'before' and 'after' the charge it
# fails for good.
sub work {
    my ($kind, $n, %how) = @_;

    my %seen;
    my $end = time + 30;
    while (keys %seen < $n && time < $end) {
        my $got = $i->http(POST => '/v1/leases', { token => 'worker', body => {
            worker => 'w', kinds => [$kind], max => $n, wait => 2 } });
        for my $lease (@{ $got->{json}{leases} }) {
            my ($subject) = $lease->{work_key} =~ /^org:([^:]+)/;
            $seen{$subject} = charge($lease, $subject, $how{$subject} // '');
        }
    }
    return \%seen;
}

sub charge {
    my ($lease, $subject, $how) = @_;

    my $token = $lease->{owner_token};
    my %fail = (error => "fails $how", retryable => JSON::PP::false);
    if ($how eq 'before') {
        is(post('/v1/lease/fail', $token, \%fail)->{status}, 200,
            "$subject fails");
        return 'failed';
    }

    my $effect = post('/v1/effects', $token, { name => 'charge',
        kind => 'sample-payment', target => $subject })->{json};
    if ($effect->{decision} eq 'send') {
        my $http = HTTP::Tiny->new;
        my $res = $http->post($provider->url . '/charges', { headers => {
            'content-type' => 'application/json',
            'idempotency-key' => $effect->{idempotency_key} },
            content => qq({"reference":"$subject","amount":5}) });
        is(post("/v1/effects/$effect->{effect_id}/outcome", $token, {
            send_id => $effect->{send_id}, state => $res->{success}
                ? 'confirmed' : 'failed' })->{status}, 200, "$subject pays");
    }
    if ($how eq 'after') {
        is(post('/v1/lease/fail', $token, \%fail)->{status}, 200,
            "$subject pays, and fails");
        return 'failed';
    }
    is(post('/v1/lease/complete', $token, { result => { paid => $subject },
        counts => { processed => 1, failed => 0 } })->{status}, 200,
        "$subject is done");
    return $effect->{decision};
}

require HTTP::Tiny;
require JSON::PP;


# --- some failed, one was never run ------------------------------------------

is(op(PUT => '/v1/kinds/bill', { overlap => 'buffer_one', max_attempts => 1,
    when_completed => 'return' })->{status}, 200, 'a kind');
my $put = op(PUT => '/v1/schedules/bills', { cron => '0 9 * * *',
    zone => 'Asia/Seoul', kind => 'bill', date_offset => -1,
    work_key => 'org:{subject}:bill:{date}', payload => { day => '{date}' },
    subjects => [qw(ash box cob dew elm)], paused => JSON::PP::true });
is($put->{status}, 200, 'a schedule of five subjects') or diag($put->{body});

my $run = op(POST => '/v1/schedules/bills/run', { date => '2026-07-24',
    subjects => [qw(ash box cob dew)], %who });
is($run->{status}, 200, 'four of them are run') or diag($run->{body});
is($run->{json}{admitted}, 4, 'four jobs');
work('bill', 4, box => 'after', cob => 'before');
is($provider->done, 3, 'three have paid');

my $path = '/v1/schedules/bills/slots/2026-07-24';
my $impact = op(GET => "$path/impact")->{json};
my %is = map { $_ => $impact->{$_} } qw(subjects succeeded failed missing
    active reached_outside business_date);
is_deeply(\%is, { subjects => 5, succeeded => 2, failed => 2, missing => 1,
    active => 0, reached_outside => 3, business_date => '2026-07-24' },
    'the impact tells what is done, failed and missing, and what was sent')
    or diag(explain $impact);
is_deeply($impact->{would_do}{failed}, { works => 2, reached_outside => 1 },
    'what a rerun of the failed ones means');
is($i->http(GET => "$path/impact", { token => 'auditor' })->{json}{impact_id},
    $impact->{impact_id}, 'the same for whoever looks');

# who, why, and what was seen

my %seen = (only => 'failed', impact_id => $impact->{impact_id});
for my $left (qw(requested_by reason impact_id only)) {
    my %body = (%who, %seen);
    delete $body{$left};
    my $res = op(POST => "$path/rerun", \%body);
    is($res->{status}, 400, "no rerun without $left");
    like($res->{json}{detail}, qr/\b$left\b/, 'which is said');
}
is($i->http(POST => "$path/rerun", { token => 'auditor', body => {
    %who, %seen } })->{status}, 403, 'nor by an auditor');
my $res = op(POST => "$path/rerun", { %who, %seen, impact_id => 'f' x 64 });
is($res->{status}, 412, 'nor with another impact');
is($res->{json}{type}, 'https://interlock.invalid/problems/impact-changed',
    'which has changed');
is(one("select count(*) from interlock.jobs where status = 'queued'"), 0,
    'nothing has run');

# the missing one is run meanwhile: what was seen is not so any more

is(op(POST => '/v1/schedules/bills/run', { date => '2026-07-24',
    subjects => ['elm'], %who })->{json}{admitted}, 1, 'the missing one');
is(op(POST => "$path/rerun", { %who, %seen })->{status}, 412,
    'the impact has changed');
work('bill', 1);
is($provider->done('elm'), 1, 'elm has paid');

$impact = op(GET => "$path/impact")->{json};
$seen{impact_id} = $impact->{impact_id};
my $before = one("select count(*) from interlock.jobs");
my $rerun = op(POST => "$path/rerun", { %who, %seen });
is($rerun->{status}, 200, 'the failed ones run again')
    or diag($rerun->{body});
is($rerun->{json}{admitted}, 2, 'two jobs');
is_deeply([ sort map { $_->{subject} } @{ $rerun->{json}{jobs} } ],
    [qw(box cob)], 'of those two subjects');
is(one("select count(*) from interlock.jobs"), $before + 2, 'and no other');
for my $job (@{ $rerun->{json}{jobs} }) {
    my $doc = $i->http(GET => "/v1/jobs/$job->{job_id}",
        { token => 'auditor' })->{json};
    my $first = one("select id from interlock.jobs where work_key ="
        . " '$job->{work_key}' order by created_at limit 1");
    is($doc->{rerun_of}, $first, "$job->{subject}: of the job that failed");
}
is(op(POST => "$path/rerun", { %who, %seen })->{status}, 412,
    'they do not run a third time by what was seen then');

my $did = work('bill', 2);
is_deeply($did, { box => 'already_confirmed', cob => 'send' },
    'what was paid is not sent again');
is_deeply({ map { $_ => $provider->done($_) } qw(ash box cob dew elm) },
    { map { $_ => 1 } qw(ash box cob dew elm) },
    'everybody has paid once');
$impact = op(GET => "$path/impact")->{json};
is($impact->{succeeded}, 5, 'all are done');
is($impact->{reached_outside}, 5, 'with five payments');
is(one("select count(*) from interlock.actions where requested_by = 'dana'"
    . " and reason = 'the CRM is back' and token_name = 'operator'"), 3,
    'and it is kept who asked, and why');

# one work key

$path = '/v1/works/org:ash:bill:2026-07-24';
$impact = op(GET => "$path/impact")->{json};
is($impact->{reached_outside}, 1, 'one payment of ash is out');
is_deeply($impact->{would_do}{not_sent_again}, ['charge'],
    'and would not be sent again') or diag(explain $impact);
$rerun = op(POST => "$path/rerun", { %who,
    impact_id => $impact->{impact_id}, payload => { day => 'again' } });
is($rerun->{status}, 202, 'it runs again') or diag($rerun->{body});
is($rerun->{headers}{location}, "/v1/jobs/$rerun->{json}{job_id}",
    'as a job of its own');
ok($rerun->{json}{rerun_of}, 'of an earlier one');
is(op(POST => "$path/rerun", { %who, impact_id =>
    op(GET => "$path/impact")->{json}{impact_id} })->{status}, 409,
    'while it is active it does not');
$did = work('bill', 1);
is_deeply($did, { ash => 'already_confirmed' }, 'nothing is sent again');
is(op(POST => "$path/rerun", { %who, impact_id => $impact->{impact_id} })
    ->{status}, 412, 'nor by what was seen then');
is($provider->done, 5, 'five payments');
is($i->http(GET => "$path/result", { token => 'auditor' })->{json}{revision},
    2, 'a second revision');
is(op(GET => '/v1/works/nosuch/impact')->{status}, 404, 'no such work');


# --- beside the slots ---------------------------------------------------------

# Two more interlockds: what fires, fires once.
$i->another_backend("other$_") for 1, 2;
is(op(PUT => '/v1/kinds/tell', { overlap => 'buffer_all',
    when_completed => 'run' })->{status}, 200, 'a kind that always runs');

my $at = (int(now() / 60) + 1) * 60;
$at += 60 if $at - now() < 8;
my $date = strftime('%Y-%m-%d', gmtime $at);

sub schedule {
    my ($name, %more) = @_;

    my $res = op(PUT => "/v1/schedules/$name", { cron => '* * * * *',
        zone => 'UTC', kind => 'tell', work_key => "$name:{subject}:{date}",
        subjects => ['x'], grace => 1, start => rfc($at), end => rfc($at + 1), %more });
    is($res->{status}, 200, "schedule $name") or diag($res->{body});
    return $res->{json};
}

my %old = map { $_ => schedule($_) } qw(by-hand moved renamed deleted plain
    spoiled);
is($_->{next_at}, rfc($at) =~ s/Z/.000Z/r, "$_->{name} is due") for
    values %old;

$run = op(POST => '/v1/schedules/by-hand/run', { date => $date, %who });
is($run->{json}{admitted}, 1, 'a date is run by hand, before its slot')
    or diag($run->{body});
my $mine = $run->{json}{jobs}[0]{job_id};
is(op(GET => '/v1/schedules/by-hand')->{json}{next_at},
    $old{'by-hand'}{next_at}, 'the slot is due as before');
my $other = op(POST => '/v1/schedules/by-hand/run', { date => '2026-07-24',
    %who });
is($other->{json}{jobs}[0]{work_key}, 'by-hand:x:2026-07-24',
    'another date is work of its own');

is(schedule('moved', cron => '0 0 1 1 *', end => undef)->{version}, 2,
    'moved to another time');
is(schedule('renamed', subjects => ['y'])->{version}, 2,
    'with another subject');
is(op(DELETE => '/v1/schedules/deleted')->{status}, 204, 'deleted');

$i->wait_for(sub {
    one("select count(*) from interlock.slots where schedule in ('by-hand',"
        . " 'renamed', 'plain', 'spoiled')") >= 4;
}, 140, 'the slots that are left');
# whoever was at it has gone on
$db->do('select * from interlock.schedule_scan(100)') for 1 .. 3;

is_deeply([ map { "@$_" } $db->do("select schedule, subject, state from"
    . " interlock.slots where schedule <> 'bills' order by 1, 2") ],
    [ 'by-hand x admitted', 'plain x admitted', 'renamed y admitted',
      'spoiled x admitted' ],
    'each has fired once, by its present definition');
is(one("select count(*) from interlock.requests where idempotency_key like"
    . " 'slot:%'"), 4, 'and asked once');
isnt(one("select job_id from interlock.slots where schedule = 'by-hand'"),
    $mine, 'the slot has a job of its own beside that of the run by hand');


# --- and what is not done is a gap ------------------------------------------------

sub gaps {
    my ($state) = @_;

    return { map { $_->{schedule} => $_ } @{ op(GET => '/v1/gaps?state='
        . $state)->{json}{items} } };
}

my $open = $i->wait_for(sub {
    my $all = gaps('open');
    keys %$all == 4 && $all;
}, 60, 'four gaps');
is_deeply([ sort keys %$open ], [qw(by-hand plain renamed
    spoiled)],
    'nobody has worked on them');
is($open->{plain}{business_date}, $date, 'of that date');
ok($open->{plain}{why}, "why: $open->{plain}{why}");
is($i->metrics->{'interlock_schedule_gaps{schedule="plain",tenant="demo"}'},
    1, 'counted');

is(op(POST => "/v1/gaps/$open->{plain}{gap_id}/dismiss", \%who)->{json}{state},
    'dismissed', 'one is dismissed');
is(op(POST => "/v1/gaps/$open->{plain}{gap_id}/$_", \%who)->{json}{type},
    'https://interlock.invalid/problems/gap-closed', "then no $_")
    for qw(approve dismiss);
is(op(POST => "/v1/gaps/$open->{renamed}{gap_id}/approve", \%who)->{status},
    409, 'what is under way is not run again');

# Both kinds of end: done, the gap closes by itself; failed, it is run again.
my %end = ('renamed:y' => 'complete', 'plain:x' => 'complete',
    'by-hand:x' => 'complete', 'spoiled:x' => 'fail');
my $until = time + 30;
while (%end && time < $until) {
    my $got = $i->http(POST => '/v1/leases', { token => 'worker', body => {
        worker => 'w', kinds => ['tell'], max => 10, wait => 2 } });
    for my $lease (@{ $got->{json}{leases} }) {
        my ($what) = $lease->{work_key} =~ /^(.*):/;
        my $call = delete $end{$what} // 'complete';
        my $res = post("/v1/lease/$call", $lease->{owner_token},
            $call eq 'fail' ? { error => 'no paper',
                retryable => JSON::PP::false } : {});
        is($res->{status}, 200, "$what: $call") or diag($res->{body});
    }
}
$i->wait_for(sub { gaps('closed')->{renamed} }, 60, 'a gap to close');
is(gaps('closed')->{renamed}{gap_id}, $open->{renamed}{gap_id},
    'what is done closes its gap');
ok(gaps('dismissed')->{plain}, 'what was dismissed stays so');

my $gap = $open->{spoiled};
my $again = op(POST => "/v1/gaps/$gap->{gap_id}/approve", \%who);
is($again->{status}, 200, 'what has failed is run again')
    or diag($again->{body});
is($again->{json}{state}, 'approved', 'approved');
is($again->{json}{requested_by}, 'dana', 'by whom');
my $job = $i->http(GET => "/v1/jobs/$again->{json}{job_id}",
    { token => 'auditor' })->{json};
is($job->{status}, 'queued', 'by a job of its own');
is($job->{work_key}, "spoiled:x:$date", 'of that date');

$i->check_sql;

done_testing();
