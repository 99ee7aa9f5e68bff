# interlock work and its lease: renewal, loss, a worker that is killed or
# stopped, a server that is away.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use File::Temp qw(tempdir);
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::Session;
use Interlock::Test;

my $i = Interlock::Test->instance;
my $tmp = tempdir(CLEANUP => 1);
my $n = 0;

sub slurp { Interlock::Test::slurp($_[0]) // '' }

sub gone {
    my ($pid) = $_[0] =~ /(\d+)/ or return;
    return slurp("/proc/$pid/status") !~ /^State:\s+[^ZX]/m;
}

sub kind {
    my ($name, %doc) = @_;

    my $r = $i->cli({ token => 'operator', stdin => encode_json({
        overlap => 'allow', when_completed => 'run', lease_seconds => 2,
        backoff => 1, max_backoff => 1, max_attempts => 5, %doc }) },
        'kind', 'put', $name, '-');
    is($r->{code}, 0, "kind $name") or diag $r->{err};
}

sub submit {
    my ($kind) = @_;

    my $r = $i->cli({ token => 'submit' }, 'submit', '--json', '--kind',
        $kind, '--key', 'lease:' . ++$n);
    is($r->{code}, 0, "submit to $kind") or diag $r->{err};
    return $r->{json}{job_id};
}

sub job { $i->http(GET => "/v1/jobs/$_[0]", { token => 'auditor' })->{json} }

sub worker {
    my ($name, $kind, $script, @options) = @_;

    return $i->spawn_cli({ token => 'worker', out => "$tmp/$name.out" },
        'work', '--kind', $kind, '--name', $name, '--once', '--grace', 1,
        @options, '--', 'sh', '-c', $script);
}

sub end_of {
    my ($pid, $seconds) = @_;

    my $code;
    $i->wait_for(sub { waitpid($pid, 1) == $pid && defined($code = $?) },
        $seconds, "the end of $pid");
    return $code & 127 ? "signal " . ($code & 127) : $code >> 8;
}

# what a script does to be seen and to wait
sub mark { "echo \$\$ >$tmp/$_[0].new; mv $tmp/$_[0].new $tmp/$_[0];" }
sub await { "while [ ! -e $tmp/$_[0] ]; do sleep 0.05; done;" }
sub go { Interlock::Test::spew("$tmp/$_[0]", '') }

kind('short');

# a command longer than many leases, one that uses the processor all the time

{
    kind('busy', lease_seconds => 3);
    my $id = submit('busy');
    my $pid = worker('long', 'busy', 'end=$(($(date +%s) + 10));'
        . ' while [ $(date +%s) -lt $end ]; do :; done; echo $INTERLOCK_FENCE');
    is(end_of($pid, 30), 0, 'a busy command of three leases ends well');
    my $j = job($id);
    is($j->{status}, 'succeeded', 'the job succeeded');
    is($j->{attempt}, 1, 'at the first attempt');
}

# the worker is killed: its command ends, somebody takes over with a higher
# fence, and the killed one's token is refused

{
    my $id = submit('short');
    my $pid = worker('killed', 'short', mark('killed')
        . " printf %s \"\$INTERLOCK_OWNER_TOKEN\" >$tmp/token;"
        . " (trap '' TERM; " . mark('killed-fork') . ' exec sleep 300) &'
        . mark('killed-all') . ' exec sleep 300');
    $i->wait_for(sub { -s "$tmp/killed-all" && -s "$tmp/killed-fork" }, 10,
        'start');
    kill 'KILL', $pid;
    is(end_of($pid, 5), 'signal 9', 'the worker is killed');
    $i->wait_for(sub { gone(slurp("$tmp/killed-all")) }, 5, 'its command');
    pass('its command ends');
    $i->wait_for(sub { -d '/proc/' . (slurp("$tmp/killed-fork") =~ /(\d+)/)[0]
        ? gone(slurp("$tmp/killed-fork")) : 1 }, 5, 'the fork');
    pass('what that started, deaf to SIGTERM, ends, too');

    my $next = worker('heir', 'short',
        "echo \$INTERLOCK_FENCE \$INTERLOCK_ATTEMPT >$tmp/heir; echo '\"heir\"'");
    is(end_of($next, 20), 0, 'another one takes over');
    is(slurp("$tmp/heir"), "2 2\n", 'with a higher fence');

    my $token = slurp("$tmp/token");
    for my $call (qw(renew complete fail release)) {
        my $r = $i->http(POST => "/v1/lease/$call", { body => {
            $call eq 'fail' ? (error => 'late', retryable => \1) : () },
            headers => { Authorization => "Bearer $token" } });
        is($r->{status}, 409, "the killed one's token: $call is refused");
    }
    is(job($id)->{status}, 'succeeded', 'and nothing changed');
    is($i->http(GET => "/v1/works/lease:$n/result", { token => 'auditor' })
        ->{json}{result}, 'heir', 'the result is the second one\'s');
}

# the worker is stopped past its lease and goes on later: it stops its command
# and reports nothing

{
    my $id = submit('short');
    my $pid = worker('frozen', 'short', mark('frozen') . ' sleep 300');
    $i->wait_for(sub { -s "$tmp/frozen" }, 10, 'start');
    kill 'STOP', $pid;
    my $next = worker('thawer', 'short', mark('thawer') . await('thaw')
        . ' echo 2');
    $i->wait_for(sub { -s "$tmp/thawer" }, 20, 'the takeover');
    kill 'CONT', $pid;
    is(end_of($pid, 10), 75, 'a worker that slept through its lease: 75');
    ok(gone(slurp("$tmp/frozen")), 'its command was ended');
    is(job($id)->{status}, 'running', 'the other one runs on');
    go('thaw');
    is(end_of($next, 10), 0, 'and ends well');
    is(job($id)->{attempt}, 2, 'as attempt 2');
}

# the lease is taken away while the worker is well: SIGTERM, then SIGKILL

{
    my $id = submit('short');
    my $pid = worker('lost', 'short', "trap '' TERM; " . mark('lost')
        . ' while :; do sleep 0.1; done');
    $i->wait_for(sub { -s "$tmp/lost" }, 10, 'start');
    my $start = time;
    $i->psql("update interlock.leases set expires_at = clock_timestamp()"
        . " - interval '1 minute' where job_id = '$id'");
    is(end_of($pid, 15), 75, 'a lost lease: 75');
    cmp_ok(time - $start, '<', 6, 'noticed by the next renewal');
    ok(gone(slurp("$tmp/lost")), 'a command that ignores SIGTERM was killed');
    like(slurp("$tmp/lost.out"), qr/lost its lease/, 'and it says so');
    my $next = worker('finder', 'short', 'true');
    is(end_of($next, 20), 0, '(the job is done by another)');
}

# asked to stop: the command ends, and the worker yields

{
    my $id = submit('short');
    my $pid = worker('asked', 'short', mark('asked') . ' exec sleep 300');
    $i->wait_for(sub { -s "$tmp/asked" }, 10, 'start');
    $i->psql("update interlock.leases set cancel_requested = true,"
        . " cancel_deadline = clock_timestamp() + interval '20 s'"
        . " where job_id = '$id'");
    is(end_of($pid, 15), 1, 'asked to stop: the attempt failed');
    ok(gone(slurp("$tmp/asked")), 'its command was ended');
    like(slurp("$tmp/asked.out"), qr/was asked to stop/, 'and it says so');
    is(job($id)->{status}, 'canceled', 'the job is canceled');
}

# asked to end, and the command ends with 0: its complete is refused, and the
# worker yields, so that who comes next starts at once, not when cancel_grace is
# over.  Whether the worker had not heard of it yet, or its command is polite;
# whether it was replaced, or canceled with another one waiting.

sub stamp { "date +%s.%N >$tmp/$_[0].new; mv $tmp/$_[0].new $tmp/$_[0];" }

for my $case (
    [ 'replaced, unheard', 'replace', 30 ],
    [ 'canceled, unheard', 'buffer_one', 30 ],
    [ 'replaced, polite', 'replace', 3 ],
    [ 'canceled, polite', 'buffer_one', 3 ],
) {
    my ($what, $overlap, $lease) = @$case;
    my $polite = $what =~ /polite/;
    my $name = $what =~ s/\W+/-/gr;
    kind($name, overlap => $overlap, lease_seconds => $lease,
        cancel_grace => 30);

    my $key = 'yield:' . ++$n;
    my $add = sub {
        my $r = $i->cli({ token => 'submit', stdin => $_[0] }, 'submit',
            '--json', '--kind', $name, '--key', $key, '--payload', '-');
        is($r->{code}, 0, "$what: submitted") or diag $r->{err};
        return $r->{json};
    };

    my $id = $add->('1')->{job_id};
    my $end = stamp("$name-end") . " echo 17; exit 0";
    my $pid = worker($name, $name, $polite
        ? "trap '$end' TERM; " . mark($name) . ' while :; do sleep 0.1; done'
        : mark($name) . await("$name-go") . $end, '--grace', 20);
    $i->wait_for(sub { -s "$tmp/$name" }, 10, 'start');
    my $next = worker("$name-next", $name, stamp("$name-next"));
    $i->wait_for(sub { $i->metrics->{interlock_parked_requests}
        == 1 }, 10, 'the next worker');

    my $second = $add->('2');
    is($second->{decision}, $overlap eq 'replace' ? 'replaced' : 'buffered',
        "$what: another one comes");
    if ($overlap ne 'replace') {
        my $r = $i->cli({ token => 'operator' }, 'cancel', $id, '--reason',
            'not this one');
        is($r->{code}, 0, "$what: asked to end") or diag $r->{err};
    }
    go("$name-go") unless $polite;

    is(end_of($next, 20), 0, "$what: the next one has run");
    my $took = slurp("$tmp/$name-next") - slurp("$tmp/$name-end");
    cmp_ok($took, '<', 1, sprintf '%s: it started after %.2f s', $what,
        $took);
    is(end_of($pid, 20), 1, "$what: the first worker says that it failed");
    like(slurp("$tmp/$name.out"), qr/failed: stopped on request/,
        "$what: and why");
    is(job($id)->{status}, $overlap eq 'replace' ? 'superseded' : 'canceled',
        "$what: the first job's end");
    is($i->psql("select result from interlock.refused_results"
        . " where job_id = '$id'"), '17',
        "$what: what it brought is kept");
}

# it hears of that only after the deadline, when nobody has recovered the
# attempt yet: it is refused as canceled, not as lost, and yields all the same

{
    kind('deaf', lease_seconds => 6);
    my $id = submit('deaf');
    my $pid = worker('deaf', 'deaf', mark('deaf') . ' exec sleep 300');
    $i->wait_for(sub { -s "$tmp/deaf" }, 10, 'start');

    # (who holds the work keeps recovery away, but not a renewal)
    my $db = Interlock::Session->new($i->dsn('admin'));
    $db->do('begin');
    $db->do("select from interlock.works where work_key = 'lease:$n'"
        . ' for no key update');
    $i->psql('update interlock.jobs set ending = true'
        . " where id = '$id'");
    $i->psql("update interlock.leases set cancel_requested = true,"
        . " cancel_deadline = clock_timestamp() - interval '1 s', expires_at"
        . " = clock_timestamp() - interval '1 s' where job_id = '$id'");
    $i->wait_for(sub { slurp("$tmp/deaf.out") =~ /was asked to stop/ }, 15,
        'the worker to hear of it');
    ok(gone(slurp("$tmp/deaf")), 'its command was ended');
    $i->wait_for(sub { $i->psql("select count(*) from pg_stat_activity where"
        . " wait_event_type = 'Lock' and query ~ 'finish'") == 1 }, 10,
        'its report to wait for the work');
    $db->do('rollback');
    is(end_of($pid, 15), 1, 'after the deadline, too, the worker yields');
    is($i->psql("select call from interlock.attempts where job_id = '$id'"),
        'fail', 'by itself');
    is(job($id)->{status}, 'canceled', 'the job is canceled');
}

# the server is away for longer than the lease: the worker's own count ends it

{
    kind('away', lease_seconds => 3);
    my $id = submit('away');
    my $pid = worker('away', 'away', mark('away') . ' exec sleep 300');
    $i->wait_for(sub { -s "$tmp/away" }, 10, 'start');
    my $start = time;
    kill 'STOP', $i->nginx_pid;
    kill 'STOP', $_ for nginx_workers();
    $i->wait_for(sub { gone(slurp("$tmp/away")) }, 10, 'the end');
    my $took = time - $start;
    cmp_ok($took, '<', 5.5, "a command ends $took s after the server went");
    cmp_ok($took, '>', 1, 'and not at once');
    kill 'CONT', $_ for nginx_workers(), $i->nginx_pid;
    is(end_of($pid, 90), 75, 'the worker ends with 75');
    my $next = worker('later', 'away', 'true');
    is(end_of($next, 20), 0, '(the job is done by another)');
}

sub nginx_workers {
    my $master = $i->nginx_pid;
    return map { m{/proc/(\d+)/} ? $1 : () }
        grep { slurp($_) =~ /^\d+ \(.*\) \S $master / } glob '/proc/[0-9]*/stat';
}

# the backend restarts under a worker: the job goes on, the end is reported

{
    kind('steady', lease_seconds => 10);
    my $id = submit('steady');
    my $pid = worker('steady', 'steady', mark('steady') . await('steady-go')
        . ' echo 1');
    $i->wait_for(sub { -s "$tmp/steady" }, 10, 'start');
    my $old = $i->backend_pid;
    kill 'STOP', $i->pid('keeper.interlockd');
    kill 'KILL', $old;
    go('steady-go');
    $i->wait_for(sub { gone(slurp("$tmp/steady")) }, 5, 'the command');
    sleep 0.5;
    kill 'CONT', $i->pid('keeper.interlockd');
    is(end_of($pid, 30), 0, 'the end is reported once the backend is back');
    is(job($id)->{status}, 'succeeded', 'and counts');
    is(job($id)->{attempt}, 1, 'as the first attempt');
}

# no busy loop while the backend is away, and it comes back by itself

{
    my $pid = worker('patient', 'short', 'echo 1');
    kill 'STOP', $i->pid('keeper.interlockd');
    kill 'KILL', $i->backend_pid;
    $i->wait_for(sub { slurp("$tmp/patient.out") =~ /trying again/ }, 10,
        'the first failure');
    my @before = (split ' ', slurp("/proc/$pid/stat"))[ 13, 14 ];
    sleep 2;
    my @after = (split ' ', slurp("/proc/$pid/stat"))[ 13, 14 ];
    cmp_ok($after[0] + $after[1] - $before[0] - $before[1], '<=', 10,
        'at most 5 % of a processor while nobody answers');
    kill 'CONT', $i->pid('keeper.interlockd');
    $i->wait_for(sub { $i->http(GET => '/readyz')->{status} == 200 }, 20,
        'the backend');
    my $id = submit('short');
    is(end_of($pid, 30), 0, 'then it takes the next job');
}

# an idle claim that waited long: the lease is renewed before the command runs

{
    my $pid = worker('idle', 'short', 'echo 1');
    sleep 2.5;                  # longer than the lease of the kind
    my $id = submit('short');
    is(end_of($pid, 20), 0, 'a claim that waited longer than a lease');
    is(job($id)->{status}, 'succeeded', 'is as good as another');
}

$i->check_sql;
done_testing;
