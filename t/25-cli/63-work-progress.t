# interlock progress: how far a job is, told from within its command, and what
# the next attempt gets of it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use File::Temp qw(tempdir);
use JSON::PP;
use Test::More;

use Interlock::Test;

my $i = Interlock::Test->instance;
my $tmp = tempdir(CLEANUP => 1);
my $progress = $i->build . '/interlock progress';
my $json = JSON::PP->new->canonical->allow_nonref;
my $n = 0;

sub slurp { Interlock::Test::slurp($_[0]) // '' }

sub kind {
    my ($name, %doc) = @_;

    my $r = $i->cli({ token => 'operator', stdin => encode_json({
        overlap => 'allow', when_completed => 'run', lease_seconds => 30,
        max_attempts => 5, backoff => 1, max_backoff => 1, %doc }) },
        'kind', 'put', $name, '-');
    is($r->{code}, 0, "kind $name") or diag $r->{err};
}

sub submit {
    my ($kind) = @_;

    my $r = $i->cli({ token => 'submit' }, 'submit', '--json', '--kind',
        $kind, '--key', 'progress:' . ++$n);
    is($r->{code}, 0, "submit to $kind") or diag $r->{err};
    return $r->{json}{job_id};
}

sub once {
    my ($kind, $script, @options) = @_;

    return $i->cli({ token => 'worker', timeout => 60 }, 'work', '--kind',
        $kind, '--once', '--wait', 20, @options, '--', 'sh', '-c', $script);
}

sub job { $i->http(GET => "/v1/jobs/$_[0]", { token => 'auditor' })->{json} }

kind('steps');

# what is told is shown; what is left out stays

{
    my $id = submit('steps');
    my $r = once('steps', "$progress --done 3 --total 40 --note 'page three'"
        . " --step fetch && $progress --json --step store; echo \"\$?\" >$tmp/code");
    is($r->{code}, 0, 'progress within a command') or diag $r->{err};
    is(slurp("$tmp/code"), "0\n", 'its exit code');
    my $j = job($id);
    is_deeply($j->{progress}, { done => 3, total => 40, note => 'page three' },
        'done, total and note are shown');
    is($j->{step}, 'store', 'the last step');
    my $answer = $i->http(GET => "/v1/works/progress:$n/result",
        { token => 'auditor' })->{json}{result};
    is($answer->{cancel_requested}, JSON::PP::false, '--json: the answer');
}

# a checkpoint: JSON as it is, other text as a string, within bounds

sub checkpoint_of {
    return $i->psql("select coalesce(checkpoint::text, 'none') from"
        . " interlock.jobs where id = '$_[0]'");
}

for my $case (
    [ '{"page": 1.10, "seen": [1, 2]}', '{"page": 1.10, "seen": [1, 2]}',
        'JSON, byte for byte' ],
    [ 'page 12', '"page 12"', 'text' ],
    [ '', '""', 'nothing' ],
    [ "a\"b\nc", '"a\"b\nc"', 'text that needs escapes' ],
    [ '[' . join(',', (1234567) x 32_000) . ']',
        '[' . join(',', (1234567) x 32_000) . ']', 'as long as it may be' ],
) {
    my ($text, $want, $what) = @$case;
    Interlock::Test::spew("$tmp/checkpoint", $text);
    my $id = submit('steps');
    is(once('steps', "$progress --checkpoint $tmp/checkpoint"
        . " && $progress --checkpoint - <$tmp/checkpoint")->{code}, 0,
        "a checkpoint: $what");
    ok(checkpoint_of($id) eq $want, "$what: kept")
        or diag substr checkpoint_of($id), 0, 200;
}

for my $case ([ 'x' x 262_145, 'too long' ], [ "\x01" x 50_000,
    'too long once it is a JSON string' ])
{
    my ($text, $what) = @$case;
    Interlock::Test::spew("$tmp/checkpoint", $text);
    my $id = submit('steps');
    my $r = once('steps', "$progress --checkpoint $tmp/checkpoint;"
        . " echo \$? >$tmp/code");
    is(slurp("$tmp/code"), "65\n", "$what: 65");
    is(checkpoint_of($id), 'none', "$what: nothing is kept");
}

# used outside of a job, wrongly, too late

for my $case (
    [ [], 64, 'no option' ],
    [ [ '--step', 'x' ], 64, 'outside of a job' ],
    [ [ '--done', '-1' ], 64, 'less than nothing' ],
    [ [ '--checkpoint', "$tmp/none" ], 66, 'a file that is not there' ],
) {
    my ($args, $code, $what) = @$case;
    my $r = $i->cli({ env => { INTERLOCK_OWNER_TOKEN => '' } }, 'progress',
        @$args);
    is($r->{code}, $code, "$what: $code") or diag $r->{err};
    isnt($r->{err}, '', "$what: it says why");
}

is($i->cli({ env => { INTERLOCK_OWNER_TOKEN => 'v4.public.x' } }, 'progress',
    '--step', 'x')->{code}, 77, 'a token that is none: 77');
is($i->cli({ env => { INTERLOCK_OWNER_TOKEN => 'v4.public.x',
    INTERLOCK_URL => 'http://127.0.0.1:1' } }, 'progress', '--step', 'x')
    ->{code}, 69, 'nobody there: 69');

{
    my $id = submit('steps');
    is(once('steps', "printf %s \"\$INTERLOCK_OWNER_TOKEN\" >$tmp/token;"
        . " $progress --step last; exit 65")->{code}, 1, 'a job that failed');
    my $r = $i->cli({ env => { INTERLOCK_OWNER_TOKEN => slurp("$tmp/token") } },
        'progress', '--step', 'late', '--checkpoint', '/dev/null');
    is($r->{code}, 75, 'after its end: 75');
    is(job($id)->{step}, 'last', 'and nothing changed');
}

# the command learns that its job is to be canceled

{
    my $id = submit('steps');
    my $pid = $i->spawn_cli({ token => 'worker', out => "$tmp/cancel.out" },
        'work', '--kind', 'steps', '--once', '--', 'sh', '-c',
        "trap '' TERM; touch $tmp/started; code=0;"
        . " while [ \$code = 0 ]; do $progress --note on; code=\$?; done;"
        . " echo \$code >$tmp/refused; exit 75");
    $i->wait_for(sub { -e "$tmp/started" }, 10, 'start');
    is($i->cli({ token => 'operator' }, 'cancel', $id, '--requested-by',
        'test', '--reason', 'test')->{code}, 0, 'canceled');
    $i->wait_for(sub { waitpid($pid, 1) == $pid }, 20, 'its end');
    is(slurp("$tmp/refused"), "75\n", 'progress is refused: 75');
    is(job($id)->{status}, 'canceled', 'the job is canceled');
}

# the next attempt goes on from there

{
    my $id = submit('steps');
    my $first = once('steps', "env >$tmp/env.1; ls /proc/self/fd >$tmp/fd.1;"
        . " printf '{\"page\": 1.50}' | $progress --checkpoint - --step fetch;"
        . " echo 'no page 2' >&2; exit 75");
    is($first->{code}, 1, 'the first attempt fails') or diag $first->{err};
    unlike(slurp("$tmp/env.1"), qr/^INTERLOCK_(?:STEP|CHECKPOINT|ATTEMPTS
        |EFFECTS)=/mx, 'it was told of no other');
    is(slurp("$tmp/fd.1"), "0\n1\n2\n3\n", 'and has no descriptor of one (the fourth is that of ls)');

    # read twice, in a process further down, too; nobody can change it
    my $second = once('steps', "env >$tmp/env.2; ls /proc/self/fd >$tmp/fd.2;"
        . " cat \"\$INTERLOCK_CHECKPOINT\" >$tmp/c.1;"
        . " sh -c 'read x <\"\$INTERLOCK_CHECKPOINT\"; echo \"\$x\"' >$tmp/c.2;"
        . " cat \"\$INTERLOCK_ATTEMPTS\" >$tmp/attempts;"
        . " (echo gone >\"\$INTERLOCK_CHECKPOINT\") 2>/dev/null;"
        . " cat \"\$INTERLOCK_CHECKPOINT\" >$tmp/c.3;"
        . " kill -9 \$\$");
    is($second->{code}, 1, 'the second one dies') or diag $second->{err};
    like(slurp("$tmp/env.2"), qr/^INTERLOCK_ATTEMPT=2$/m, 'INTERLOCK_ATTEMPT');
    like(slurp("$tmp/env.2"), qr/^INTERLOCK_STEP=fetch$/m, 'INTERLOCK_STEP');
    is(slurp("$tmp/c.1"), '{"page": 1.50}', 'INTERLOCK_CHECKPOINT names a file'
        . ' with the checkpoint, byte for byte');
    is(slurp("$tmp/c.2"), "{\"page\": 1.50}\n", 'that can be read again');
    is(slurp("$tmp/c.3"), '{"page": 1.50}', 'and not be changed');
    is(slurp("$tmp/fd.2"), "0\n1\n2\n3\n4\n5\n",
        'no descriptor beside those two (and the one of ls)');
    my $attempts = decode_json(slurp("$tmp/attempts"));
    is(scalar @$attempts, 1, 'INTERLOCK_ATTEMPTS: one earlier attempt');
    like($attempts->[0]{error}, qr/^exit code 75\nno page 2/, 'with its error');
    is($attempts->[0]{step}, 'fetch', 'and its step');

    my $third = once('steps', "printf '%s' \"\$INTERLOCK_STEP\" >$tmp/step;"
        . " cat \$INTERLOCK_CHECKPOINT; exit 0");
    is($third->{code}, 0, 'the third one is done') or diag $third->{err};
    is(slurp("$tmp/step"), 'fetch', 'the step outlived an attempt that told'
        . ' none');
    is_deeply($i->http(GET => "/v1/works/progress:$n/result",
        { token => 'auditor' })->{json}{result}, { page => 1.5 },
        'and so did the checkpoint');
}

# after a loss, from another worker; a text

{
    kind('lost-steps', lease_seconds => 2);
    my $id = submit('lost-steps');
    my $pid = $i->spawn_cli({ token => 'worker', out => "$tmp/lost.out" },
        'work', '--kind', 'lost-steps', '--once', '--', 'sh', '-c',
        "printf 'page 7' | $progress --checkpoint - && touch $tmp/told;"
        . ' sleep 300');
    $i->wait_for(sub { -e "$tmp/told" }, 10, 'the checkpoint');
    kill 'KILL', $pid;
    waitpid($pid, 0);
    my $r = once('lost-steps', "cat \"\$INTERLOCK_CHECKPOINT\" >$tmp/c.4;"
        . " cat \"\$INTERLOCK_ATTEMPTS\" >$tmp/attempts");
    is($r->{code}, 0, 'a lost job is done by another') or diag $r->{err};
    is(slurp("$tmp/c.4"), 'page 7', 'from the checkpoint, a text as it was');
    is(decode_json(slurp("$tmp/attempts"))->[0]{call}, 'lost',
        'and knows how the first one ended');
}

$i->check_sql;
done_testing;
