# interlock work and children that behave badly.  Whatever a command does, the
# worker stays small, the job ends as it should, and nothing of the command
# outlives it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use File::Temp qw(tempdir);
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::Test;

my $i = Interlock::Test->instance;
my $tmp = tempdir(CLEANUP => 1);
chmod 0755, $tmp;
my $n = 0;
my $peak_bound = 64_000;       # kB of memory that the worker may ever have

sub slurp { Interlock::Test::slurp($_[0]) // '' }

sub kind {
    my ($name, %doc) = @_;

    my $r = $i->cli({ token => 'operator', stdin => encode_json({
        overlap => 'allow', when_completed => 'run', lease_seconds => 30,
        max_attempts => 5, backoff => 60, cancel_grace => 30, %doc }) },
        'kind', 'put', $name, '-');
    is($r->{code}, 0, "kind $name") or diag $r->{err};
}

sub submit {
    my ($kind, $payload) = @_;

    my $r = $i->cli({ token => 'submit', stdin => $payload // '{}' },
        'submit', '--json', '--kind', $kind, '--key', 'awkward:' . ++$n,
        '--payload', '-');
    is($r->{code}, 0, "submit to $kind") or diag $r->{err};
    return $r->{json}{job_id};
}

sub job { $i->http(GET => "/v1/jobs/$_[0]", { token => 'auditor' })->{json} }

sub result {
    my ($id) = @_;

    return $i->http(GET => '/v1/works/' . job($id)->{work_key} . '/result',
        { token => 'auditor' })->{json}{result};
}

# What runs with this mark in its environment: all that a command has started
# has, wherever it went.
sub marked {
    my ($mark) = @_;

    return grep { slurp("/proc/$_/stat") =~ /\) [^ZX]/ }
        map { m{(\d+)} && index("\0" . slurp($_), "\0AWKWARD=$mark\0") >= 0
            ? $1 : () } glob '/proc/[0-9]*/environ';
}

# A worker for one job.  Its own environment has no mark: the command makes it
# (by env), so that only the command's processes are found.
sub worker {
    my ($mark, $kind, $script, @options) = @_;

    return $i->spawn_cli({ token => 'worker', out => "$tmp/$mark.out" },
        'work', '--kind', $kind, '--once', '--wait', 20, @options, '--',
        'env', "AWKWARD=$mark", 'sh', '-c', $script);
}

# Waits for a worker's end; its exit code and the most memory that it had.
sub end_of {
    my ($pid, $seconds) = @_;

    my ($peak, $code) = (0);
    $i->wait_for(sub {
        # (before it is the worker it is a copy of this test)
        my ($kb) = slurp("/proc/$pid/status")
            =~ /\AName:\s+interlock\n.*^VmHWM:\s+(\d+)/ms;
        $peak = $kb if ($kb // 0) > $peak;
        return unless waitpid($pid, 1) == $pid;
        $code = $? & 127 ? 'signal ' . ($? & 127) : $? >> 8;
        return 1;
    }, $seconds // 30, "the end of $pid");
    return ($code, $peak);
}

sub mark { "echo \$\$ >$tmp/$_[0].new; mv $tmp/$_[0].new $tmp/$_[0];" }
sub pid_in { (slurp("$tmp/$_[0]") =~ /(\d+)/)[0] }

# One command that ends by itself: the worker's code, the job's status, what
# the error or the result must be.
sub awkward {
    my ($name, $script, %want) = @_;

    kind($name);
    my $id = submit($name, $want{payload});
    my $start = time;
    my ($code, $peak) = end_of(worker($name, $name, $script), $want{seconds});
    my $took = time - $start;
    my $j = job($id);

    is($code, $want{code} // 0, "$name: the worker's exit code")
        or diag slurp("$tmp/$name.out");
    is($j->{status}, $want{status} // 'succeeded', "$name: the job's status");
    like($j->{error} // '', $want{error}, "$name: its error")
        if $want{error};
    cmp_ok(length($j->{error} // ''), '<', 30_000, "$name: a bounded error");
    is_deeply(result($id), $want{result}, "$name: its result")
        if exists $want{result};
    cmp_ok($peak, '>', 0, "$name: its memory was seen") if $want{seconds};
    cmp_ok($peak, '<', $peak_bound, "$name: at most $peak kB of memory");
    cmp_ok($took, '<', $want{within}, sprintf "%s: after %.1f s", $name, $took)
        if $want{within};
    is_deeply([ marked($name) ], [], "$name: nothing outlives it");
    unlink "$tmp/$name.out";
    return $j;
}


# --- output ------------------------------------------------------------------

awkward('stdout-gigabyte', 'head -c 1000000000 /dev/zero | tr "\\\\0" x',
    seconds => 120);
awkward('stderr-gigabyte', 'head -c 1000000000 /dev/zero >&2; exit 75',
    seconds => 120, code => 1, status => 'queued',
    error => qr/^exit code 75\n\x{fffd}+$/);
awkward('both-at-once', 'yes out | head -c 200000000 & '
    . 'yes err | head -c 200000000 >&2; wait; exit 65', seconds => 120,
    code => 1, status => 'failed', error => qr/^exit code 65\n.*err\n/s);
awkward('no-json', 'echo "{half"', result => '{half');
awkward('no-text', 'printf "a\\\\000b\\\\377"', result => "a\0b\x{fffd}");
awkward('nul-error', 'printf "at \\\\000 byte\\n" >&2; exit 70',
    code => 1, status => 'failed', error => qr/^exit code 70\nat \x{fffd} byte/);
awkward('no-outputs', 'exec >&- 2>&-; sleep 1; exit 0', result => undef);
awkward('slow-drip', 'for i in 1 2 3 4 5 6; do printf $i; sleep 0.2; done',
    result => 123456);


# --- input -------------------------------------------------------------------

my $big = '"' . 'x' x 8_000_000 . '"';

awkward('closes-stdin', 'exec <&-; sleep 0.5; echo 1', payload => $big,
    result => 1);
awkward('exits-unread', 'echo 2', payload => $big, result => 2);
awkward('reads-a-little', 'head -c 10', payload => $big,
    result => '"xxxxxxxxx');
awkward('reads-late', 'sleep 1; wc -c', payload => $big,
    result => 8_000_002);
awkward('dies-unread', 'kill -9 $$', payload => $big, code => 1,
    status => 'queued', error => qr/signal 9/);


# --- processes ---------------------------------------------------------------

awkward('grandchild-holds-stdout', 'sleep 300 & echo 3', result => 3,
    within => 10);
awkward('own-session', 'setsid sleep 300 & echo 4', result => 4,
    within => 10);
awkward('daemon', "(setsid sh -c 'trap \"\" TERM HUP; sleep 300 & wait;"
    . " sleep 300' >/dev/null 2>&1 &) ; sleep 0.3; echo 5", result => 5,
    within => 10);
awkward('many-orphans', 'for i in $(seq 300); do (setsid sleep 300 &); done;'
    . ' echo 6', result => 6, within => 20);
awkward('respawns', "(setsid sh -c 'while :; do sleep 0.01; done' &);"
    . " (setsid sh -c 'while :; do (sleep 0.02 &); done' &); sleep 0.3;"
    . ' echo 7', result => 7, within => 20);
awkward('many-short', 'for i in $(seq 1000); do (true &); done; echo 8',
    result => 8, within => 20);
awkward('descriptors', 'echo "[$(ls /proc/self/fd | tr "\\n" ,)0]"',
    result => [ 0, 1, 2, 3, 0 ]);      # (3 is that of ls itself)


# --- told to stop ------------------------------------------------------------

# Starts a command that writes its mark, and waits for that.
sub running {
    my ($name, $script, $doc, @options) = @_;

    kind($name, %{ $doc // {} });
    my $id = submit($name);
    my $pid = worker($name, $name, $script, @options);
    $i->wait_for(sub { -s "$tmp/$name" }, 10, "the start of $name");
    return ($id, $pid);
}

sub cancel {
    my ($id) = @_;

    my $r = $i->cli({ token => 'operator' }, 'cancel', $id, '--requested-by',
        'test', '--reason', 'awkward');
    is($r->{code}, 0, 'canceled') or diag $r->{err};
}

# how a canceled attempt ended: by its worker's word or by recovery
sub call_of {
    return $i->psql("select string_agg(call, ',' order by attempt) from"
        . " interlock.attempts where job_id = '$_[0]'");
}

for my $case (
    [ 'deaf', "trap '' TERM; " . mark('deaf') . ' while :; do sleep 0.1; done' ],
    [ 'deaf-elsewhere', "setsid sh -c \"trap '' TERM; "
        . 'sleep 300 & while :; do sleep 0.1; done" & '
        . mark('deaf-elsewhere') . ' wait' ],
    [ 'stopped', mark('stopped') . ' kill -STOP $$; sleep 300' ],
    [ 'stops-its-children', 'setsid sleep 300 & kill -STOP $!; '
        . mark('stops-its-children') . ' wait' ],
) {
    my ($name, $script) = @$case;

    # the grace of the kind is shorter than the worker's own
    my ($id, $pid) = running($name, $script, { lease_seconds => 3,
        cancel_grace => 4 }, '--grace', 60);
    cancel($id);
    my $start = time;
    my ($code) = end_of($pid, 20);
    is($code, 1, "$name: canceled, the worker's exit code");
    is(job($id)->{status}, 'canceled', "$name: the job is canceled");
    is(call_of($id), 'fail', "$name: the worker yielded within cancel_grace");
    is_deeply([ marked($name) ], [], "$name: nothing outlives it");
}

# the lease goes to somebody else

{
    my ($id, $pid) = running('loses', "setsid sh -c \"trap '' TERM; sleep 300"
        . '; sleep 300" & ' . mark('loses') . ' wait',
        { lease_seconds => 2, backoff => 1 }, '--grace', 1);
    $i->psql("update interlock.leases set expires_at = clock_timestamp()"
        . " - interval '1 minute' where job_id = '$id'");
    my ($code) = end_of($pid, 20);
    is($code, 75, 'loses: a lost lease');
    is_deeply([ marked('loses') ], [], 'loses: nothing outlives it');
    my ($next) = end_of(worker('finds', 'loses', 'echo 1'), 20);
    is($next, 0, 'loses: somebody else does the job');
    is(job($id)->{status}, 'succeeded', 'loses: which succeeds');
}

# a second signal: no more time

{
    my ($id, $pid) = running('hurried', "trap '' TERM; setsid sleep 300 & "
        . mark('hurried') . ' while :; do sleep 0.1; done', {},
        '--drain', 300, '--grace', 1);
    kill 'TERM', $pid;
    $i->wait_for(sub { slurp("$tmp/hurried.out") =~ /ending, 1 running/ }, 10,
        'the drain');
    my $start = time;
    kill 'TERM', $pid;
    my ($code) = end_of($pid, 20);
    is($code, 75, 'hurried: told twice, the job handed back');
    cmp_ok(time - $start, '<', 5, 'hurried: within its grace');
    is(job($id)->{status}, 'queued', 'hurried: the job waits for another');
    is(call_of($id), 'release', 'hurried: no attempt was counted');
    is_deeply([ marked('hurried') ], [], 'hurried: nothing outlives it');
}


# --- killed ------------------------------------------------------------------

# the worker itself, while what it runs has left its group and is deaf

{
    my ($id, $pid) = running('widow', "trap '' TERM; setsid sh -c \"trap ''"
        . ' TERM; sleep 300; sleep 300" & ' . mark('widow')
        . ' while :; do sleep 0.1; done', { lease_seconds => 2 },
        '--grace', 1);
    cmp_ok(scalar(marked('widow')), '>=', 3, 'widow: several processes');
    kill 'KILL', $pid;
    is((end_of($pid))[0], 'signal 9', 'widow: its worker is killed');
    $i->wait_for(sub { !marked('widow') }, 10, 'the end of all');
    pass('widow: nothing outlives the worker');
    $i->wait_for(sub { call_of($id) eq 'lost' }, 10, 'recovery');
    is(job($id)->{status}, 'queued', 'widow: the job is there for another');
}

# the process between the two

{
    my ($id, $pid) = running('wardless', mark('wardless')
        . ' sleep 300 & wait', {}, '--grace', 1);
    my ($ward) = grep { slurp("/proc/$_/stat") =~ /^\d+ \(interlock-ward\) \S $pid / }
        map { m{(\d+)} } glob '/proc/[0-9]*/stat';
    ok($ward, 'wardless: it has a ward');
    kill 'KILL', $ward;
    my ($code) = end_of($pid, 10);
    is($code, 1, 'wardless: a killed ward fails the attempt');
    like(job($id)->{error}, qr/signal 9/, 'wardless: which says why');
    is(job($id)->{status}, 'queued', 'wardless: to be retried');
    $i->wait_for(sub { !marked('wardless') }, 5, 'the end of all');
    pass('wardless: nothing outlives it');
}


# --- many at once ------------------------------------------------------------

# eight that flood both outputs while others come and go: one worker's memory

{
    kind('crowd');
    my @ids = map { submit('crowd') } 1 .. 24;
    my $pid = $i->spawn_cli({ token => 'worker', out => '/dev/null' }, 'work',
        '--kind', 'crowd', '--concurrency', 8, '--wait', 1, '--',
        'env', 'AWKWARD=crowd', 'sh', '-c', 'setsid sleep 300 &'
        . ' head -c 20000000 /dev/zero & head -c 5000000 /dev/zero >&2; wait %2;'
        . ' echo done');
    my ($code, $peak) = end_of($pid, 120);
    is($code, 0, 'crowd: the worker ends well');
    is(scalar(grep { job($_)->{status} eq 'succeeded' } @ids), 24,
        'crowd: 24 jobs done');
  SKIP: {
        skip 'a sanitizer keeps what was freed', 1
            if ($ENV{INTERLOCK_BUILD} // '') =~ /san\b/;
        cmp_ok($peak, '<', 400_000, "crowd: at most $peak kB of memory");
    }
    is_deeply([ marked('crowd') ], [], 'crowd: nothing outlives it');
}

is_deeply([ grep { slurp("/proc/$_/stat") =~ /^\d+ \(interlock-ward\)/
    && slurp("/proc/$_/environ") =~ /\Q@{[ $i->url ]}\E\0/ }
    map { m{(\d+)} } glob '/proc/[0-9]*/stat' ], [], 'no ward is left');

$i->check_sql;
done_testing;
