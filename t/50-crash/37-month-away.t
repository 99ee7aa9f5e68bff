#!/usr/bin/perl

# The database is away for 30 days (it is stopped, and started again by a
# clock that is 30 days on: libfaketime): 43,200 slots of a schedule of every
# minute were missed.  Each rule catches up what it says, accounts for the
# rest, and does so in bounded work; a manual run of a date consumes no slot.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;
use Time::HiRes qw(time);

use Interlock::Clock;
use Interlock::Test;

my $clocks = Interlock::Clock->new
    or plan skip_all => 'no libfaketime (Debian package faketime)';

my $days = 30;
my $missed = $days * 1440;
$clocks->set(pg => '+0');

my $i = Interlock::Test->instance(
    env => { INTERLOCK_PG_BINDIR => $clocks->postgres('pg') },
    conf => ['recover_interval = 100ms']);

sub put {
    my ($path, $doc) = @_;

    my $res = $i->http(PUT => $path, { token => 'operator', body => $doc });
    is($res->{status}, 200, $path) or diag $res->{body};
}

put('/v1/kinds/minutely', { overlap => 'allow', max_wait => 31536000,
    max_queued => 10_000_000 });
my %rule = (
    latest => { catch_up => 'latest' },
    all    => { catch_up => 'all', catch_up_max => 250 },
    skip   => { catch_up => 'skip' },
    ask    => { catch_up => 'all', catch_up_max => 250, approve_after => 3600 },
);
put("/v1/schedules/$_", { cron => '* * * * *', zone => 'UTC', kind => 'minutely',
    work_key => "$_:{subject}:{slot}", subjects => [qw(a b)], grace => 31536000,
    %{ $rule{$_} } }) for sort keys %rule;

# Each has fired, so that something is behind.
my $behind = sub { $i->psql('select count(*) from interlock.schedules where name '
    . "<> 'daily-sales-9am' and scanned_to < date_trunc('minute', clock_timestamp())") };
$i->wait_for(sub { $i->psql('select count(distinct schedule) from interlock.slots') == 4 },
    80, 'the first slot of each');
my $stopped = $i->psql('select min(scanned_to) from interlock.schedules '
    . "where name <> 'daily-sales-9am'");

$i->stop;
$clocks->set(pg => "+${days}d");
my $t0 = time;
$i->start;
my $up = time - $t0;
$t0 = time;
$i->wait_for(sub { !$behind->() }, 60, 'all slots to be accounted for');
my $took = time - $t0;
cmp_ok($took, '<', 30, sprintf 'caught up in %.1f s (after a start of %.1f s)', $took, $up);

# Whatever comes on time meanwhile is not of what was missed.
my $now = $i->psql("select date_trunc('minute', clock_timestamp())");
my $span = $i->psql("select extract(epoch from '$now'::timestamptz - '$stopped')::int / 60");
cmp_ok($span, '>=', $missed, "$span slots were missed of each");

# Of a schedule: run, waiting, skipped, rows; what was up to a time.
my %got;
for my $name (sort keys %rule) {
    @{ $got{$name} }{qw(run waiting skipped rows ranges first)} = split /\|/, $i->psql(<<END);
select (select count(distinct slot_at) from interlock.slots where schedule = '$name'
            and slot_at > '$stopped' and slot_at <= '$now' and state = 'admitted'),
    (select count(distinct slot_at) from interlock.slots where schedule = '$name'
            and slot_at > '$stopped' and slot_at <= '$now' and state = 'waiting'
            and reason = 'approval'),
    (select count(distinct slot_at) from interlock.slots where schedule = '$name'
            and slot_at > '$stopped' and slot_at <= '$now' and state = 'skipped')
        + (select coalesce(sum(slots), 0) from interlock.schedule_skips
           where schedule = '$name' and from_at > '$stopped' and reason = 'catch_up'),
    (select count(*) from interlock.slots where schedule = '$name' and slot_at > '$stopped'),
    (select count(*) from interlock.schedule_skips where schedule = '$name'),
    (select min(slot_at) from interlock.slots where schedule = '$name' and slot_at > '$stopped'
        and state = 'admitted')
END
    my $g = $got{$name};
    is($g->{run} + $g->{waiting} + $g->{skipped}, $span,
        "$name: every slot is accounted for ($g->{run} run, $g->{waiting} wait, "
        . "$g->{skipped} skipped)");
    cmp_ok($g->{ranges}, '<=', 3, "... the skipped ones in $g->{ranges} rows");
    cmp_ok($g->{rows}, '<=', 2 * 260, "... and $g->{rows} slots");
}

# What came on time since counts as run, too: a handful.
my $few = 5;
cmp_ok($got{latest}{run}, '>=', 1, 'latest: one');
cmp_ok($got{latest}{run}, '<=', 1 + $few, '... and no other that was missed');
cmp_ok($got{all}{run}, '>=', 250, 'all: the newest catch_up_max');
cmp_ok($got{all}{run}, '<=', 250 + $few, '... and no others');
cmp_ok($got{skip}{run}, '<=', $few, 'skip: nothing that was missed');
cmp_ok($got{ask}{waiting}, '>=', 250 - 62, 'what is older than approve_after waits');
cmp_ok($got{ask}{run}, '>=', 58, '... what is younger runs');
cmp_ok($got{ask}{run}, '<=', 62 + $few, '... and nothing else');

is($i->psql('select count(*) from (select from interlock.jobs where source = $$schedule$$ '
    . 'group by work_key having count(*) > 1) x'), 0, 'no work twice');

# A manual run of one date leaves the slots alone.
my $before = $i->psql("select next_at from interlock.schedules where name = 'skip'");
my $date = substr $stopped, 0, 10;
put('/v1/schedules/nine', { cron => '0 9 * * *', zone => 'UTC', kind => 'minutely',
    work_key => 'nine:{date}' });
my $next = $i->psql("select next_at from interlock.schedules where name = 'nine'");
my $res = $i->http(POST => '/v1/schedules/nine/run', { token => 'operator', body =>
    { date => $date, requested_by => 'dana', reason => 'it was missed' } });
is($res->{json}{admitted}, 1, "$date is run by hand") or diag $res->{body};
is($i->psql("select next_at from interlock.schedules where name = 'nine'"), $next,
    'the next slot comes all the same');

$i->check_sql;
done_testing;
