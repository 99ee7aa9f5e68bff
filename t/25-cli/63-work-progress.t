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

$i->check_sql;
done_testing;
