#!/usr/bin/perl

# A limit of 3, 200 jobs, 20 workers, one of which is killed with -9 every
# second: never more than 3 live leases, as a sampler inside the database
# sees it, a dead worker's part is free again one lease and one sweep later,
# and every job ends.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::Test;

my ($capacity, $jobs, $workers, $lease) = (3, 200, 20, 2);
my $i = Interlock::Test->instance;

sub ok_put {
    my ($path, $body) = @_;
    my $r = $i->http(PUT => $path, { token => 'operator', body => $body });
    is($r->{status}, 200, "(PUT $path)") or diag $r->{body};
}

ok_put('/v1/limits/three', { capacity => $capacity });
# two kinds, so that a part that is free may go to either
ok_put("/v1/kinds/$_", { overlap => 'allow', limits => ['three'],
    lease_seconds => $lease, backoff => 0, max_attempts => 100 })
    for qw(lim-a lim-b);

my $r = $i->http(POST => '/v1/jobs:batch', { token => 'submit',
    body => { jobs => [ map { { kind => $_ % 2 ? 'lim-a' : 'lim-b',
        work_key => "lim:$_" } } 1 .. $jobs ] } });
is(scalar(grep { $_->{code} == 202 } @{ $r->{json}{items} }), $jobs,
    "$jobs jobs");

# The sampler: each look a statement, so a snapshot, of its own.
$i->psql('create table public.sampled (stop boolean); insert into '
    . 'public.sampled values (false);');
my $file = $i->dir . '/sampled';
my $sampler = fork() // die "fork: $!";
if (!$sampler) {
    my $text = eval { $i->psql(q{
        create function public.sample() returns text language plpgsql as $$
        declare
            n bigint := 0; most bigint := 0; now_live bigint; full_ bigint := 0;
        begin
            while not (select stop from public.sampled) loop
                select count(*) into now_live from interlock.leases
                where kind in ('lim-a', 'lim-b');
                n := n + 1;
                most := greatest(most, now_live);
                if now_live = 3 then full_ := full_ + 1; end if;
                perform pg_sleep(0.002);
            end loop;
            return n || ' ' || most || ' ' || full_;
        end $$;
        select public.sample();
    }) } // "failed: $@";
    Interlock::Test::spew($file, $text);
    POSIX::_exit(0);
}
$i->wait_for(sub { $i->psql("select count(*) from pg_stat_activity where "
    . "wait_event = 'PgSleep'") }, 10, 'the sampler');

my ($started, %pid) = (0);
sub start_worker {
    my $name = 'w' . ++$started;
    $pid{$name} = $i->spawn_cli({ token => 'worker' }, 'work', '--kind',
        'lim-a', '--kind', 'lim-b', '--name', $name, '--', 'sleep', '0.1');
}
start_worker() for 1 .. $workers;

# Stops a worker that holds a part, and answers its name.  A job is short: who
# was seen with one may have ended it, so each is looked at again when it
# cannot go on.  With nobody to be had, any worker.
sub stop_a_holder {
    my $until = time + 5;
    while (time < $until) {
        for my $row ($i->sql('select worker from interlock.leases')) {
            my $name = $row->[0];
            next if !$pid{$name};
            kill 'STOP', $pid{$name};
            return $name if $i->psql('select count(*) from interlock.leases '
                . "where worker = '$name'") > 0;
            kill 'CONT', $pid{$name};
        }
    }
    return (sort keys %pid)[0];
}

# --- one killed every second -----------------------------------------------

my ($kills, $holders, %dead) = (0, 0);
my $next = time + 1;
my $end = time + 90;
my $open = $jobs;

while ($open > 0 && time < $end) {
    my @live = $i->sql('select attempt_id, worker from interlock.leases');
    my %lease = map { $_->[0] => $_->[1] } @live;

    # what a dead one held: until when it was there
    for my $attempt (keys %dead) {
        next if !exists $lease{$attempt};
        $dead{$attempt}{seen} = time;
    }

    if (time >= $next) {
        $next += 1;
        # any of them; each third time one that holds a part
        my @names = sort keys %pid;
        my $name = ++$kills % 3 ? $names[ rand @names ] : stop_a_holder();
        kill 'KILL', $pid{$name};
        waitpid delete $pid{$name}, 0;
        my $at = time;
        # what it holds now, when it is dead for sure
        for my $row ($i->sql("select attempt_id from interlock.leases where "
            . "worker = '$name'")) {
            $holders++;
            $dead{ $row->[0] } = { at => $at, seen => $at };
        }
        start_worker();
    }
    sleep 0.05;
    $open = $i->psql('select count(*) from interlock.jobs where '
        . 'finished_at is null');
}

is($open, 0, 'every job ended');
cmp_ok($kills, '>=', 6, "$kills workers were killed");
cmp_ok($holders, '>=', 2, "$holders of them held a part");

$i->psql('update public.sampled set stop = true');
waitpid $sampler, 0;
my ($looks, $most, $full) = split ' ', Interlock::Test::slurp($file);
like($looks, qr/^\d+$/, 'the sampler ran') or diag "$looks $most $full";
cmp_ok($looks, '>=', 1000, "$looks looks");
is($most, $capacity, 'never more than 3 live leases, and 3 at times');
cmp_ok($full, '>', $looks / 4, sprintf('which was so in %.0f %% of them',
    100 * $full / $looks));

my ($late) = sort { $b <=> $a } map { $_->{seen} - $_->{at} } values %dead;
cmp_ok($late, '<', $lease + 1.5, sprintf('what a dead one held was free '
    . 'after %.1f s at the latest', $late));

is($i->psql("select string_agg(distinct status, ' ') from interlock.jobs "
    . "where kind like 'lim-%'"), 'succeeded', 'each job succeeded');
# A call that was under way when its worker died may have ended its attempt.
my @lost = map { $_->[0] } $i->sql('select id from interlock.attempts '
    . "where call = 'lost'");
is(scalar(grep { !$dead{$_} } @lost), 0, 'attempts of the dead are lost, no '
    . 'other one');
cmp_ok(@lost, '>=', 2, scalar(@lost) . ' of them');
is($i->psql('select count(*) from interlock.lease_groups'), 0,
    'no part is held any more');

kill 'TERM', values %pid;
for my $name (keys %pid) {
    waitpid $pid{$name}, 0;
    delete $pid{$name};
}

$i->check_sql;
done_testing();
