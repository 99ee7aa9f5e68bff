# interlock work: what goes into a command, what comes out, exit codes, output
# without end, children that do not listen.

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
my $json = JSON::PP->new->canonical->allow_nonref;

sub slurp { Interlock::Test::slurp($_[0]) // '' }

sub kind {
    my ($name, %doc) = @_;

    my $r = $i->cli({ token => 'operator', stdin => encode_json({
        overlap => 'allow', when_completed => 'run', lease_seconds => 30,
        max_attempts => 5, backoff => 60, %doc }) },
        'kind', 'put', $name, '-');
    is($r->{code}, 0, "kind $name") or diag $r->{err};
}

my $n = 0;

# One job, submitted; its id.
sub submit {
    my ($kind, $payload, @more) = @_;

    my $r = $i->cli({ token => 'submit', stdin => $payload // '{}' },
        'submit', '--json', '--kind', $kind, '--key', 'cli:' . ++$n,
        '--payload', '-', @more);
    is($r->{code}, 0, "submit to $kind") or diag $r->{err};
    return $r->{json}{job_id};
}

sub once {
    my ($kind, @command) = @_;

    my @options;
    push @options, shift @command while @command && $command[0] =~ /^--/;
    return $i->cli({ token => 'worker', timeout => 60 }, 'work', '--kind',
        $kind, '--once', '--wait', 20, @options, '--', @command);
}

sub job { $i->http(GET => "/v1/jobs/$_[0]", { token => 'auditor' })->{json} }

sub result {
    my ($id) = @_;

    my $key = job($id)->{work_key};
    return $i->http(GET => "/v1/works/$key/result", { token => 'auditor' })
        ->{json};
}

kind('cli-work');

# what goes in

{
    my $id = submit('cli-work', '{"n":1.10,"big":123456789012345678901}');
    my $r = once('cli-work', 'sh', '-c',
        "cat >$tmp/in; env >$tmp/env; echo '{\"ok\":1.50}'");
    is($r->{code}, 0, 'a job done once is exit code 0') or diag $r->{err};
    is(slurp("$tmp/in"), '{"n":1.10,"big":123456789012345678901}',
        'the payload, byte for byte');

    my %env = map { /^([^=]+)=(.*)/ ? ($1, $2) : () }
        split /\n/, slurp("$tmp/env");
    is($env{INTERLOCK_JOB_ID}, $id, 'INTERLOCK_JOB_ID');
    is($env{INTERLOCK_WORK_KEY}, "cli:$n", 'INTERLOCK_WORK_KEY');
    is($env{INTERLOCK_FENCE}, 1, 'INTERLOCK_FENCE');
    is($env{INTERLOCK_ATTEMPT}, 1, 'INTERLOCK_ATTEMPT');
    is($env{INTERLOCK_KIND}, 'cli-work', 'INTERLOCK_KIND');
    is($env{INTERLOCK_URL}, $i->url, 'INTERLOCK_URL');
    like($env{INTERLOCK_OWNER_TOKEN}, qr/^v4\.public\./,
        'INTERLOCK_OWNER_TOKEN');

    is(job($id)->{status}, 'succeeded', 'the job succeeded');
    like($i->http(GET => "/v1/works/cli:$n/result", { token => 'auditor' })
        ->{body}, qr/\{"ok":1\.50\}/, 'the result, as written');
}

# bytes that are not JSON, from a webhook

{
    my $body = "ring=\x00\xff&a=b";
    my $r = $i->http(POST => '/in/token', { body => $body, headers => {
        'X-Webhook-Token' => $i->secret('token'), 'X-Extra' => 'kept',
        'Content-Type' => 'application/octet-stream',
        'Idempotency-Key' => 'bin-1' } });
    is($r->{status}, 202, 'a webhook whose body is not JSON');
    my $w = once('webhook', 'sh', '-c', "cat >$tmp/bin;"
        . " printf '%s\\n%s' \"\$INTERLOCK_CONTENT_TYPE\""
        . " \"\$INTERLOCK_HEADERS\" >$tmp/headers");
    is($w->{code}, 0, 'is worked on') or diag $w->{err};
    is(slurp("$tmp/bin"), $body, 'comes as it was, byte for byte');
    my ($type, $headers) = split /\n/, slurp("$tmp/headers"), 2;
    is($type, 'application/octet-stream', 'with its content type');
    like($headers // '', qr/x-extra/i, 'and its headers');
}

# results of other forms

for my $case (
    [ 'echo "two words"', '"two words"', 'text is kept as a string' ],
    [ 'printf "[1,\n2]\n\n"', '[1,2]', 'white space behind JSON' ],
    [ 'true', 'null', 'no output, no result' ],
    [ 'printf "a\377b"', '"a' . "\x{fffd}" . 'b"', 'bytes not UTF-8' ],
) {
    my ($script, $want, $what) = @$case;
    my $id = submit('cli-work');
    is(once('cli-work', 'sh', '-c', $script)->{code}, 0, $what);
    is($json->encode(result($id)->{result}), $want, "$what: result");
}

# exit codes

# (a kind for each: a job to be retried must not come to the next case)

for my $code (0, 1, 2, 63 .. 79, 127, 255) {
    kind("cli-code-$code");
    my $id = submit("cli-code-$code");
    my $r = once("cli-code-$code", 'sh', '-c', "echo lost a wheel >&2; exit $code");
    my $final = ($code >= 64 && $code <= 73) || ($code >= 76 && $code <= 78);
    my $j = job($id);

    is($r->{code}, $code ? 1 : 0, "exit code $code: the worker's own");
    like($r->{err}, qr/^lost a wheel$/m, 'standard error is passed through');

    if ($code == 0) {
        is($j->{status}, 'succeeded', 'exit code 0: succeeded');
    } else {
        is($j->{status}, $final ? 'failed' : 'queued',
            "exit code $code: " . ($final ? 'for good' : 'to be retried'));
        like($j->{error}, qr/exit code $code\nlost a wheel/, 'the error kept');
    }
}

{
    kind('cli-signal');
    my $id = submit('cli-signal');
    is(once('cli-signal', 'sh', '-c', 'kill -KILL $$')->{code}, 1, 'a signal');
    my $j = job($id);
    is($j->{status}, 'queued', 'is retried');
    like($j->{error}, qr/signal 9/, 'and named');
}

# a retry is the next attempt, with a higher fence

{
    kind('cli-retry', backoff => 1, max_backoff => 1);
    my $id = submit('cli-retry');
    is(once('cli-retry', 'sh', '-c', 'exit 75')->{code}, 1, 'exit code 75');
    is(once('cli-retry', 'sh', '-c',
        "echo \$INTERLOCK_ATTEMPT \$INTERLOCK_FENCE >$tmp/second")->{code}, 0,
        'runs again');
    is(slurp("$tmp/second"), "2 2\n", 'as attempt 2 with fence 2');
}

# output without end: bounded memory, a result that says so

{
    my $id = submit('cli-work');
    my $out = "$tmp/flood.out";
    my $pid = $i->spawn_cli({ token => 'worker', out => $out }, 'work',
        '--kind', 'cli-work', '--once', '--', 'sh', '-c',
        'head -c 1000000000 /dev/zero; head -c 50000000 /dev/zero >&2');
    my $peak = 0;
    while (waitpid($pid, 1) == 0) {
        my ($rss) = slurp("/proc/$pid/status") =~ /^VmHWM:\s+(\d+)/m;
        $peak = $rss if ($rss // 0) > $peak;
        sleep 0.01;
    }
    is($? >> 8, 0, '1 GB of output: done');
    cmp_ok($peak, '<', 100_000, "at most $peak kB in memory");
    my $r = result($id)->{result};
    is($r->{bytes}, 1_000_000_000, 'the result tells how much it was');
    ok($r->{truncated}, 'and that it was cut');
    unlink $out;
}

{
    kind('cli-tail');
    my $id = submit('cli-tail');
    my $r = once('cli-tail', 'sh', '-c',
        'i=0; while [ $i -lt 3000 ]; do echo "line $i" >&2; i=$((i+1)); done;'
        . ' exit 75');
    my $error = job($id)->{error};
    like($error, qr/line 2999/, 'the end of a long standard error is kept');
    cmp_ok(length $error, '<', 10_000, 'and not all of it');
    is(() = $r->{err} =~ /^line \d+$/mg, 3000, 'all of it is passed on');
}

# children with manners of their own

{
    my $id = submit('cli-work', '"' . 'x' x 300_000 . '"');
    is(once('cli-work', 'sh', '-c', 'exec <&-; echo 1')->{code}, 0,
        'one that closes its standard input');
}

{
    my $id = submit('cli-work');
    my $start = time;
    my $r = once('cli-work', 'sh', '-c',
        "sleep 300 & echo \$! >$tmp/forked; echo 1");
    is($r->{code}, 0, 'one that leaves a process behind with its pipes open');
    cmp_ok(time - $start, '<', 10, 'is not waited for');
    ok(gone(slurp("$tmp/forked")), 'what it left is ended');
    is(result($id)->{result}, 1, 'its result is there');
}

sub gone {
    my ($pid) = $_[0] =~ /(\d+)/ or return;
    return slurp("/proc/$pid/status") !~ /^State:\s+[^ZX]/m;
}

# cancel is another's part; a drain stops as hard: SIGTERM ignored, a fork that
# ignores it, too

{
    my $id = submit('cli-work');
    my $pid = $i->spawn_cli({ token => 'worker', out => "$tmp/drain.out" },
        'work', '--kind', 'cli-work', '--drain', 1, '--grace', 1, '--', 'sh',
        '-c', "trap '' TERM; sh -c 'echo \$\$ >$tmp/deaf; exec sleep 300' &"
        . " echo \$\$ >$tmp/deaf.parent; sleep 300");
    $i->wait_for(sub { -s "$tmp/deaf" && -s "$tmp/deaf.parent" }, 10, 'start');
    my $start = time;
    kill 'TERM', $pid;
    waitpid($pid, 0);
    is($?, 0, 'a drained worker ends with 0');
    cmp_ok(time - $start, '<', 8, 'within drain and grace');
    cmp_ok(time - $start, '>', 1.5, 'and not before');
    ok(gone(slurp("$tmp/deaf.parent")), 'a command that ignores SIGTERM');
    ok(gone(slurp("$tmp/deaf")), 'its child, too');
    my $j = job($id);
    is($j->{status}, 'queued', 'the job was handed back');
    my $again = once('cli-work', 'sh', '-c', 'echo $INTERLOCK_ATTEMPT');
    is($again->{code}, 0, 'and runs again');
}

# a drain lets a command end that is nearly done, and claims nothing more

{
    my $first = submit('cli-work');
    my $pid = $i->spawn_cli({ token => 'worker', out => "$tmp/drain2.out" },
        'work', '--kind', 'cli-work', '--', 'sh', '-c',
        "touch $tmp/running; while [ ! -e $tmp/go ]; do sleep 0.05; done");
    $i->wait_for(sub { -e "$tmp/running" }, 10, 'start');
    my $second = submit('cli-work');
    kill 'TERM', $pid;
    $i->wait_for(sub { slurp("$tmp/drain2.out") =~ /ending, 1 running/ }, 10,
        'the drain');
    Interlock::Test::spew("$tmp/go", '');
    waitpid($pid, 0);
    is($?, 0, 'a drain that ends in time');
    is(job($first)->{status}, 'succeeded', 'its job is done');
    is(job($second)->{status}, 'queued', 'no other was taken');
    is(once('cli-work', 'true')->{code}, 0, '(and is done now)');
}

# an idle worker that is told to end takes nothing with it

for my $round (1 .. 5) {
    my $pid = $i->spawn_cli({ token => 'worker', out => "$tmp/idle.out" },
        'work', '--kind', 'cli-work', '--', 'true');
    $i->wait_for(sub { $i->http(GET => '/metrics')->{body}
        =~ /^interlock_\w*parked\w*(?:\{[^}]*\})? [1-9]/m }, 10,
        'its claim');
    kill 'TERM', $pid;
    my $start = time;
    my $id = submit('cli-work');
    waitpid($pid, 0);
    is($?, 0, 'an idle worker ends with 0');
    cmp_ok(time - $start, '<', 5, 'soon');
    if (job($id)->{status} ne 'succeeded') {
        is(once('cli-work', 'true')->{code}, 0, 'the job goes to the next');
    }
    is(job($id)->{status}, 'succeeded', 'the job is done');
    cmp_ok(time - $start, '<', 10, 'without waiting for a lease to end');
}

# many at once

{
    my @ids = map { submit('cli-work') } 1 .. 8;
    my $pid = $i->spawn_cli({ token => 'worker', out => "$tmp/many.out" },
        'work', '--kind', 'cli-work', '--concurrency', 8, '--wait', 1, '--',
        'sh', '-c', "mkdir -p $tmp/many; touch $tmp/many/\$\$;"
        . " while [ \$(ls $tmp/many | wc -l) -lt 8 ]; do sleep 0.05; done");
    waitpid($pid, 0);
    is($?, 0, 'eight jobs, each of which waits for the other seven');
    is(scalar(grep { job($_)->{status} eq 'succeeded' } @ids), 8, 'all done');
}

# nothing to do, nothing to run, no server

{
    my $start = time;
    my $r = $i->cli({ token => 'worker' }, 'work', '--kind', 'cli-work',
        '--once', '--wait', 1, '--', 'true');
    is($r->{code}, 75, '--once and no job within --wait');
    cmp_ok(time - $start, '<', 5, 'in time');

    $r = $i->cli({ token => 'worker' }, 'work', '--kind', 'cli-work', '--',
        'no-such-command-anywhere');
    is($r->{code}, 66, 'a command that is not there, before anything is taken');

    $r = $i->cli({ token => 'submit' }, 'work', '--kind', 'cli-work', '--once',
        '--', 'true');
    is($r->{code}, 77, 'a token that may not') or diag $r->{err};

    $r = $i->cli({ token => 'worker',
        env => { INTERLOCK_URL => 'http://127.0.0.1:1' } }, 'work', '--kind',
        'cli-work', '--once', '--wait', 1, '--', 'true');
    is($r->{code}, 69, 'no server within --wait');
    is(() = $r->{err} =~ /trying again/g, 1, 'said once');
}

# secrets in no argument list

{
    my $id = submit('cli-work');
    my $pid = $i->spawn_cli({ token => 'worker', out => "$tmp/proc.out" },
        'work', '--kind', 'cli-work', '--once', '--', 'sh', '-c',
        "printf %s \"\$INTERLOCK_OWNER_TOKEN\" >$tmp/token.new;"
        . " mv $tmp/token.new $tmp/token;"
        . " while [ ! -e $tmp/seen ]; do sleep 0.05; done");
    $i->wait_for(sub { -s "$tmp/token" }, 10, 'start');
    my @secrets = (slurp("$tmp/token"), map { $i->token($_) }
        qw(submit worker operator auditor));
    my @found;
    for my $file (glob '/proc/[0-9]*/cmdline') {
        my $text = slurp($file);
        push @found, $file if grep { index($text, $_) >= 0 } @secrets;
    }
    is_deeply(\@found, [], 'no token in any argument list');
    Interlock::Test::spew("$tmp/seen", '');
    waitpid($pid, 0);
    is($? >> 8, 0, '(and the job is done)');
    my $logs = join '', map { slurp($_) } glob($i->dir . '/log/*');
    ok(!(grep { index($logs, $_) >= 0 } @secrets), 'nor in any log');
    ok(!(grep { index(slurp("$tmp/proc.out"), $_) >= 0 } @secrets),
        'nor in what the worker says');
}

$i->check_sql;
done_testing;
