#!/usr/bin/perl

# 100,000 repeats of a delivery, as fast as nginx answers them: each is on
# record or counted as missing, to the last one; deliveries that reach
# interlockd meanwhile are answered in time.  (How many are missing is up to
# the machine: nginx waits for nobody.)

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;
use Time::HiRes qw(time);

use Interlock::Load qw(github_request);
use Interlock::Test;

my $want = 100_000;
my $i = Interlock::Test->instance;

sub zone { $i->http(GET => '/edge/status')->{json}{zones}[0] }

sub told {
    my $m = $i->metrics;
    return map { $m->{"interlock_edge_audit_${_}_total"} // 0 }
        qw(received missing);
}

sub memory {
    my ($pid) = @_;
    return Interlock::Test::slurp("/proc/$pid/status") =~ /^VmRSS:\s+(\d+)/m
        ? $1 : die "no process $pid\n";
}

my $body = '{"ref":"refs/heads/flood","repository":{"full_name":"acme/shop"}}';
my $first = $i->github($body, { delivery => 'flood' });
is($first->{status}, 202, 'the first delivery');

my $request = github_request($i->dir, 'flood', 'push', $body);
my %headers = %{ $request->{headers} };
my $lua = $i->dir . '/tmp/flood.lua';
Interlock::Test::spew($lua, "wrk.method = 'POST'\nwrk.body = [[$body]]\n"
    . join '', map { "wrk.headers['$_'] = '$headers{$_}'\n" }
        sort keys %headers);

# The flood, and single deliveries beside it.
my ($began, $n, @ms) = (time, 0);
while (zone()->{answered_alone} < $want && time < $began + 300) {
    my $pid = fork() // die "fork: $!";
    if (!$pid) {
        open STDOUT, '>', '/dev/null';
        exec 'wrk', '-t', 1, '-c', 8, '-d', '2s', '-s', $lua,
            $i->url . '/in/github' or POSIX::_exit(127);
    }
    do {
        my $at = time;
        my $res = $i->github(qq({"ref":"refs/heads/b$n",)
            . '"repository":{"full_name":"acme/other"}}',
            { delivery => 'own-' . $n++ });
        push @ms, 1000 * (time - $at);
        is($res->{status}, 202, "delivery $n") if $res->{status} != 202;
    } while (!waitpid($pid, 1));
    is($?, 0, 'wrk ends well') if $?;
}
my $alone = zone()->{answered_alone};
note(sprintf '%d repeats in %.1f s', $alone, time - $began);
cmp_ok($alone, '>=', $want, 'repeats were answered alone');

my ($received, $missing);
$i->wait_for(sub {
    ($received, $missing) = told();
    $received + $missing >= $alone;
}, 120, 'every one is on record, or missing');
note(sprintf 'settled after %.1f s', time - $began);
note(sprintf '%d on record, %d missing (%.2f %%)', $received, $missing,
    100 * $missing / $alone);
my $m = $i->metrics;
note(join ', ', map { /outcome="(\w+)"/ ? "$1 $m->{$_}" : () }
    grep { /^interlock_edge_audit_datagrams/ } sort keys %$m);

is($received + $missing, $alone, 'together they are what the zone has counted');
is($i->psql(q{select count(*) from interlock.requests
    where decision = 'duplicate'}), $received,
    'what is on record are rows');
cmp_ok($received, '>', 0, 'not all of them are lost');
is($i->psql('select count(*) from interlock.jobs'), 1 + $n,
    'and no job came of it');

@ms = sort { $a <=> $b } @ms;
note(sprintf '%d deliveries beside the flood: median %.1f ms, max %.1f ms',
    scalar @ms, $ms[ @ms / 2 ], $ms[-1]);
cmp_ok($ms[-1], '<', 5000, 'deliveries beside it are answered in time');
cmp_ok(memory($i->backend_pid), '<', 300_000,
    'interlockd keeps no more than its queue holds');

$i->check_sql;

done_testing();
