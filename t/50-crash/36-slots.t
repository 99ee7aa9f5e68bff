#!/usr/bin/perl

# A schedule of every minute, while time runs fast for PostgreSQL
# (libfaketime), scanned by three interlockd, whose clocks are 90 s ahead, 90 s
# behind and right, and of which one is killed again and again: each slot once.
#
# A day of it; make soak goes through a month.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Cwd qw(abs_path);
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::Clock;
use Interlock::Test;

my $clocks = Interlock::Clock->new
    or plan skip_all => 'no libfaketime (Debian package faketime)';
plan skip_all => 'libfaketime and a sanitizer both want to be loaded first'
    if grep { /san\b/ } $ENV{INTERLOCK_BUILD} // '', $ENV{INTERLOCKD} // '';

my $slots = int(($ENV{SLOT_DAYS} // ($ENV{INTERLOCK_FULL} ? 30 : 1)) * 1440);
my $speed = $ENV{SLOT_SPEED} // ($slots > 3000 ? 7200 : 3600);

my $build = $ENV{INTERLOCK_BUILD} // "$Interlock::Test::TOP/build";
my $interlockd = abs_path("$build/interlockd");
my %clock = (ahead => '+90', behind => '-90', right => '+0');
$clocks->set($_, $clock{$_}) for keys %clock;
$clocks->set(pg => "+0 x$speed");
my %program = map { $_ => $clocks->program($_, $interlockd) } keys %clock;

my $i = Interlock::Test->instance(
    env => { INTERLOCK_PG_BINDIR => $clocks->postgres('pg'),
        INTERLOCKD => $program{ahead} },
    conf => ['recover_interval = 100ms'],
    # what PostgreSQL does by the clock, it would do all the time
    postgresql => "checkpoint_timeout = 1d\nautovacuum = off");

# What goes by the database's clock would be over at once.
my $res = $i->http(PUT => '/v1/kinds/minutely', { token => 'operator', body =>
    { overlap => 'allow', max_wait => 31536000, max_queued => 10_000_000 } });
is($res->{status}, 200, 'a kind') or diag $res->{body};
$res = $i->http(PUT => '/v1/schedules/minutes', { token => 'operator', body =>
    { cron => '* * * * *', zone => 'UTC', kind => 'minutely',
      work_key => 'minute:{slot}', catch_up => 'all',
      catch_up_max => 10_000, grace => 31536000 } });
is($res->{status}, 200, 'a schedule of every minute') or BAIL_OUT($res->{body});

my %other;
sub launch {
    my ($name) = @_;

    local $ENV{INTERLOCKD} = $program{$name};
    $other{$name} = $i->another_backend($name)->{pid};
}
launch($_) for qw(behind right);

sub count { $i->psql("select count(*) from interlock.slots where schedule = 'minutes'") }

my ($kills, $t0) = (0, time);
my %killed;
while (count() < $slots) {
    my $name = (qw(ahead behind right))[ $kills % 3 ];
    my $before = count();
    # in between two steps of it, wherever it is
    sleep 0.2 + rand 0.3;
    if ($name eq 'ahead') {
        my $pid = eval { $i->backend_pid };
        kill 'KILL', $pid if $pid && $pid != ($killed{ahead} // 0);
        $killed{ahead} = $pid;
    } else {
        kill 'KILL', $other{$name};
        waitpid $other{$name}, 0;
        launch($name);
    }
    $kills++;
    $i->wait_for(sub { count() > $before }, 60, 'others to go on');
}
my $took = time - $t0;

# What was scanned up to a moment, whole.
my ($first, $last, $n, $distinct, $admitted, $jobs) = split /\|/, $i->psql(q{
    select min(slot_at), max(slot_at), count(*), count(distinct slot_at),
        count(*) filter (where state = 'admitted'), count(distinct job_id)
    from interlock.slots where schedule = 'minutes'});
cmp_ok($n, '>=', $slots, "$n slots in " . int($took) . " s, $kills kills");
is($i->psql("select count(*) from generate_series('$first', '$last'::timestamptz, "
    . "interval '1 minute')"), $n, 'every minute from the first to the last one');
is($distinct, $n, 'none twice');
is($admitted, $n, 'each admitted');
is($jobs, $n, 'as a job of its own');
my $last_in = "slot_at <= '$last'";
is($i->psql("select count(*) from interlock.requests q where q.source = 'schedule' and exists ("
    . "select from interlock.slots s where s.job_id = q.job_id and s.$last_in)"), $n,
    'asked for once');
is($i->psql("select count(*) || ' ' || count(distinct work_key) from interlock.jobs j "
    . "where j.source = 'schedule' and exists (select from interlock.slots s "
    . "where s.job_id = j.id and s.$last_in)"), "$n $n", 'and run under its own key');
is($i->psql("select count(*) from interlock.schedule_skips where schedule = 'minutes'"), 0,
    'none was skipped');
cmp_ok($i->psql("select count(*) from interlock.jobs j where j.source = 'schedule' and not exists ("
    . 'select from interlock.slots s where s.job_id = j.id)'), '==', 0,
    'no job without its slot');
is($i->psql("select count(*) from interlock.slots where slot_at > clock_timestamp()"), 0,
    'none before its time');

$i->check_sql;
done_testing;
