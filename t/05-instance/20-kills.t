#!/usr/bin/perl

# kill -9: of one service (it is back at once), of the supervisor or a keeper
# (nothing stays behind), of everything (the next start recovers).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::Test;

my $i = Interlock::Test->instance;
my $dir = $i->dir;

# what a killed one leaves in the others' logs
$i->expect_log(qr/exited on signal 9|upstream prematurely closed|connect\(\)/);

sub submit {
    my ($key) = @_;
    my $res = $i->http(POST => '/v1/jobs', { token => 'submit',
        body => { kind => 'free', work_key => $key } });
    return $res->{status} == 202 ? $res->{json}{job_id} : undef;
}

sub there {
    my ($job) = @_;
    return $i->http(GET => "/v1/jobs/$job", { token => 'auditor' })->{status}
        == 200;
}

my $job = submit('kills:1');
ok($job, 'a job is accepted');

# interlockd: back within 100 ms

my @ms;
for (1 .. 5) {
    my $old = $i->backend_pid;
    my $t0 = time;
    kill 'KILL', $old;
    $i->wait_for(sub {
        my $new = eval { $i->backend_pid };
        $new && $new != $old;
    }, 10, 'interlockd to be back');
    push @ms, (time - $t0) * 1000;
    $i->wait_for(sub { $i->http(GET => '/readyz')->{status} == 200 }, 10,
        'it to be ready');
}
@ms = sort { $a <=> $b } @ms;
cmp_ok($ms[2], '<=', 100, sprintf('interlockd is started again after %.0f ms '
    . '(median of 5)', $ms[2]));
ok(there($job), 'the job is there');

# nginx: its workers outlive a killed master, and hold the port

my $old = $i->nginx_pid;
kill 'KILL', $old;
$i->wait_for(sub {
    my $new = eval { $i->nginx_pid };
    $new && $new != $old && $i->http(GET => '/readyz')->{status} == 200;
}, 10, 'nginx to be back');
pass('nginx is back');

# PostgreSQL

$old = $i->pid('postgres');
kill 'KILL', $old;
$i->wait_for(sub {
    my $new = eval { $i->pid('postgres') };
    $new && $new != $old && $i->http(GET => '/readyz')->{status} == 200;
}, 30, 'PostgreSQL to be back');
ok(there($job), 'PostgreSQL is back, and the job there');

# One that does not come up is tried again, but not in a hot loop

my $conf = Interlock::Test::slurp("$dir/interlockd.conf");
Interlock::Test::spew("$dir/interlockd.conf", "nonsense = 1\n");
my $lines = () = $i->log('instance') =~ /interlockd \(pid/g;
kill 'KILL', $i->backend_pid;
sleep(3);
my $tries = (() = $i->log('instance') =~ /interlockd \(pid/g) - $lines;
cmp_ok($tries, '>=', 2, "a broken interlockd was tried again");
cmp_ok($tries, '<=', 8, "$tries times in 3 s");
Interlock::Test::spew("$dir/interlockd.conf", $conf);
$i->wait_for(sub { $i->http(GET => '/readyz')->{status} == 200 }, 5,
    'interlockd to be back when it is mended');
pass('it is back when it is mended');

# A keeper alone: its service ends with it, another keeper takes over

$old = $i->pid('keeper.interlockd');
kill 'KILL', $old;
$i->wait_for(sub {
    my $new = eval { $i->pid('keeper.interlockd') };
    $new && $new != $old && $i->http(GET => '/readyz')->{status} == 200;
}, 15, 'another keeper');
pass('a killed keeper is replaced');

# The supervisor alone: everything ends with it

kill 'KILL', $i->pid('supervisor');
$i->wait_for(sub { !%{ $i->processes } }, 30, 'everything to end');
pass('nothing outlives the supervisor');
$i->start;
ok(there($job), 'the next start recovers');

# Everything at once, PostgreSQL in the middle of work; three times

for my $round (1 .. 3) {
    my $last = submit("kills:all:$round");
    ok($last, "round $round: a job is accepted");
    my $p = $i->processes;
    kill 'STOP', keys %$p;
    kill 'KILL', keys %$p;
    $i->wait_for(sub { !%{ $i->processes } }, 10, 'them to be gone');
    is($i->script('status'), 3, "round $round: status is 3");
    $i->start;
    ok(there($last), "round $round: the next start recovers");
}

# Stale files that name a process of somebody else's by now

$i->stop;
my $innocent = fork() // die "fork: $!";
if (!$innocent) { exec 'sleep', '600' or POSIX::_exit(1) }
Interlock::Test::spew("$dir/pids/$_", "$innocent 12345\n")
    for qw(supervisor interlockd nginx postgres keeper.nginx);
Interlock::Test::spew("$dir/pg/postmaster.pid",
    "$innocent\n$dir/pg\n1\n5432\n$dir/sock\n\n  1 1\nready\n");
chown((stat $dir)[ 4, 5 ], glob "$dir/pids/*") if $> == 0;
chown((stat $dir)[ 4, 5 ], "$dir/pg/postmaster.pid") if $> == 0;
is($i->script('status'), 3, 'with foreign pids in the files: not running');
$i->start;
ok(there($job), 'and the start goes well');
ok(kill(0, $innocent), 'the foreign process lives');
kill 'KILL', $innocent;
waitpid($innocent, 0);

$i->stop;
is_deeply($i->processes, {}, 'no process is left');

done_testing();
