# decide, redrive, audit, inbox, advice: what an operator does about jobs that do
# not go on by themselves, and how he finds out.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP;
use POSIX qw(strftime);
use Test::More;

use Interlock::Test;

my $i = Interlock::Test->instance;
my $me = getpwuid($<);
my $nobody = '01a228ad-2d74-7e92-b90e-1356e44be0ea';
my $n = 0;

sub cli {
    my ($role, @args) = @_;

    return $i->cli({ token => $role }, @args);
}

sub kind {
    my ($name, %doc) = @_;

    my $r = $i->cli({ token => 'operator', stdin => encode_json({
        overlap => 'allow', when_completed => 'run', lease_seconds => 30,
        max_attempts => 1, backoff => 1, max_backoff => 1, %doc }) },
        'kind', 'put', $name, '-');
    is($r->{code}, 0, "kind $name") or diag $r->{err};
}

sub submit {
    my ($kind, $key) = @_;

    $key //= 'operators:' . ++$n;
    my $r = cli('submit', 'submit', '--json', '--kind', $kind, '--key', $key);
    is($r->{code}, 0, "submit to $kind") or diag $r->{err};
    return ($r->{json}{job_id}, $key);
}

sub once {
    my ($kind, $script) = @_;

    return cli('worker', 'work', '--kind', $kind, '--once', '--wait', 20,
        '--', 'sh', '-c', $script)->{code};
}

sub job { $i->http(GET => "/v1/jobs/$_[0]", { token => 'auditor' })->{json} }

# A job that failed, with this on its standard error.
sub failed {
    my ($kind, $text, $key) = @_;

    my ($id) = submit($kind, $key);
    is(once($kind, "echo '$text' >&2; exit 65"), 1, "$text: failed");
    return $id;
}

kind('letters');
kind('others');


# --- decide ------------------------------------------------------------------

{
    my ($id, $key) = submit('letters');
    is(once('letters', 'exit 65'), 1, 'a job fails');

    my $r = cli('operator', 'decide', $id, '--action', 'release', '--reason',
        'try');
    is($r->{code}, 75, 'a decision that its state does not permit: 75');
    like($r->{err}, qr/failed/, 'names the state');

    $r = cli('operator', 'decide', $id, '--action', 'retry', '--reason',
        "the \"disk\" is\nback", '--assignee', 'kim', '--json');
    is($r->{code}, 0, 'retry') or diag $r->{err};
    is($r->{json}{status}, 'queued', 'it is queued again');
    is($r->{json}{assignee}, 'kim', 'with who looks after it');
    is($i->psql("select requested_by || '/' || reason || '/' || token_name from"
        . " interlock.actions where target = '$id'"),
        "$me/the \"disk\" is\nback/operator",
        'the login name, the reason and the token are kept');

    is(once('letters', 'echo 1'), 0, 'it runs again');
    is(job($id)->{attempt}, 2, 'as attempt 2');
    is(cli('operator', 'decide', $id, '--action', 'succeed', '--reason', 'x')
        ->{code}, 75, 'what has succeeded cannot be decided');
    is(cli('operator', 'decide', $nobody, '--action', 'retry', '--reason',
        'x')->{code}, 66, 'no such job: 66');
    is(cli('submit', 'decide', $id, '--action', 'retry', '--reason', 'x')
        ->{code}, 77, 'a token that may not: 77');
}

for my $case ([ 'succeed', 'succeeded' ], [ 'retry', 'queued' ]) {
    my ($action, $status) = @$case;
    my $id = failed('others', "to $action");
    my $r = cli('operator', 'decide', $id, '--action', $action, '--reason',
        'found out', '--requested-by', 'Ann "x"');
    is($r->{code}, 0, $action) or diag $r->{err};
    like($r->{out}, qr/^status +$status$/m, "$action: shown for people");
    is(job($id)->{status}, $status, "$action: $status");
    is($i->psql("select requested_by from interlock.actions where target ="
        . " '$id'"), 'Ann "x"', "$action: by whom");
    cli('operator', 'cancel', $id, '--reason', 'done with it')
        if $status eq 'queued';
}

# held, because its worker was lost

{
    kind('looked-at', on_lost => 'hold', max_attempts => 5);
    my ($id) = submit('looked-at');
    my $c = $i->http(POST => '/v1/leases', { token => 'worker', body => {
        worker => 'x', kinds => [ 'looked-at' ], max => 1, wait => 5 } });
    is(scalar @{ $c->{json}{leases} }, 1, 'claimed');
    $i->psql("update interlock.leases set expires_at = clock_timestamp()"
        . " - interval '1 minute' where job_id = '$id'");
    $i->wait_for(sub { job($id)->{status} eq 'held' }, 10, 'recovery');
    my $r = cli('operator', 'decide', $id, '--action', 'release', '--reason',
        'nothing was sent');
    is($r->{code}, 0, 'a held job is released') or diag $r->{err};
    is(once('looked-at', 'echo $INTERLOCK_ATTEMPT'), 0, 'and runs');
    is(job($id)->{attempt}, 2, 'as the next attempt');
    is(job($id)->{status}, 'succeeded', 'to its end');
}


# --- redrive -----------------------------------------------------------------

my %dead = map { $_ => failed('letters', $_, 'redrive:' . tr/ /-/r) }
    'connection refused', 'connection reset', 'no such table';
my $other = failed('others', 'connection refused', 'redrive:other');

{
    my $r = cli('operator', 'redrive', '--kind', 'letters', '--error',
        'connection');
    is($r->{code}, 0, 'a plan') or diag $r->{err};
    like($r->{out}, qr/^plan ([0-9a-f-]{36}): 2 failed jobs$/m,
        'says how many');
    my ($plan) = $r->{out} =~ /^plan (\S+):/;
    for my $error ('connection refused', 'connection reset') {
        my $key = 'redrive:' . $error =~ tr/ /-/r;
        like($r->{out}, qr/^  $dead{$error} letters $key \S+ exit code 65 $error/m,
            "and which: $error");
    }
    unlike($r->{out}, qr/no such table|\Q$other\E/, 'and no other');
    like($r->{err}, qr/--plan \Q$plan\E/, 'and what to do');
    is(job($_)->{status}, 'failed', 'it changes nothing') for values %dead;

    my $late = failed('letters', 'connection late', 'redrive:late');
    is(cli('operator', 'decide', $dead{'connection reset'}, '--action',
        'succeed', '--reason', 'found')->{code}, 0, 'one is decided meanwhile');

    my $acted = cli('operator', 'redrive', '--plan', $plan, '--reason',
        'it is back');
    is($acted->{code}, 0, 'the plan') or diag $acted->{err};
    like($acted->{out}, qr/^plan \Q$plan\E: 1 jobs queued again$/m,
        'says how many');
    like($acted->{out}, qr/^  $dead{'connection reset'} \S/m,
        'and which was skipped');
    is(job($dead{'connection refused'})->{status}, 'queued', 'queued again');
    is(job($dead{'connection reset'})->{status}, 'succeeded', 'left alone');
    is(job($late)->{status}, 'failed', 'one that failed later is no part');

    is(cli('operator', 'redrive', '--plan', $plan, '--reason', 'again')
        ->{out}, $acted->{out}, 'the same plan again: the same answer');
    is(once('letters', 'echo 1'), 0, 'it runs');
    is(job($dead{'connection refused'})->{status}, 'succeeded', 'and is done');
    is($i->psql("select count(*) from interlock.actions where requested_by ="
        . " '$me' and reason = 'it is back'"), 1,
        'one action, with name and reason');
}

# --yes, and JSON

{
    my $r = cli('operator', 'redrive', '--json', '--yes', '--reason', 'yes',
        '--kind', 'letters', '--since', '5m', '--error', 'no such');
    is($r->{code}, 0, '--yes') or diag $r->{err};
    is($r->{json}{redriven}, 1, 'one document: what was done');
    is(job($dead{'no such table'})->{status}, 'queued', 'at once');
    is(once('letters', 'echo 1'), 0, '(and it runs)');

    my $plan = cli('operator', 'redrive', '--json', '--job', $other);
    is_deeply([ map { $_->{job_id} } @{ $plan->{json}{jobs} } ], [ $other ],
        '--job: just that one');
    is($plan->{err}, '', '--json: nothing else is said');

    is(cli('operator', 'redrive', '--json', '--max', 1)->{json}{count}, 1,
        '--max');
    my $soon = strftime('%Y-%m-%dT%H:%M:%SZ', gmtime(time + 3600));
    is(cli('operator', 'redrive', '--since', $soon)->{code}, 66,
        'none that is meant: 66');
    is(cli('operator', 'redrive', '--key', 'redrive:other', '--until', $soon,
        '--json')->{json}{count}, 1, '--key and --until');
    is(cli('operator', 'redrive', '--plan', $nobody, '--reason', 'x')->{code},
        66, 'no such plan: 66');
    is(cli('worker', 'redrive', '--kind', 'letters')->{code}, 77,
        'a token that may not: 77');
}

# a later job of the work key has succeeded: left out, unless asked for

{
    kind('later', overlap => 'skip');
    my $old = failed('later', 'too early', 'redrive:later');
    my $new = $i->cli({ token => 'submit', stdin => '2' }, 'submit', '--json',
        '--kind', 'later', '--key', 'redrive:later', '--payload', '-');
    is($new->{code}, 0, '(a later one comes)') or diag $new->{err};
    is(once('later', 'echo 2'), 0, '(and succeeds)');

    my $r = cli('operator', 'redrive', '--kind', 'later');
    is($r->{code}, 66, 'none is meant: 66');
    like($r->{out}, qr/: 0 failed jobs$/m, 'the plan says so');
    like($r->{out}, qr/^left out: 1 whose .*--succeeded-since.*:\n  \Q$old\E$/m,
        'and what it leaves out');
    is_deeply(cli('operator', 'redrive', '--kind', 'later', '--json')
        ->{json}{succeeded_since}, { count => 1, job_ids => [ $old ] },
        '--json: the same');

    $r = cli('operator', 'redrive', '--kind', 'later', '--succeeded-since');
    is($r->{code}, 0, '--succeeded-since') or diag $r->{err};
    like($r->{out}, qr/: 1 failed jobs\n  \Q$old\E /, 'takes it in');
    unlike($r->{out}, qr/left out/, 'and leaves nothing out');
    is(cli('operator', 'redrive', '--kind', 'later', '--succeeded-since',
        '--yes', '--reason', 'meant so', '--json')->{json}{redriven}, 1,
        'and runs it again');
    is(job($old)->{status}, 'queued', 'queued again');
    is(once('later', 'echo 1'), 0, '(it runs)');
}

# more than a page, more than a step

{
    kind('mass', max_queued => 1000);
    my @keys = map { "mass:$_" } 1 .. 620;
    for my $k (0, 1) {
        my @part = splice @keys, 0, 500;
        my $r = $i->http(POST => '/v1/jobs:batch', { token => 'submit',
            body => { jobs => [ map { { kind => 'mass', work_key => $_ } }
                @part ] } });
        is($r->{status}, 200, scalar(@part) . ' jobs');
    }
    $i->psql("update interlock.jobs set status = 'failed', place = null,"
        . " finished_at = clock_timestamp(), error = 'x' where kind = 'mass'");
    my $r = cli('operator', 'redrive', '--kind', 'mass');
    like($r->{out}, qr/: 620 failed jobs, the first 200:$/m, '620 of them');
    is(scalar(() = $r->{out} =~ /^  /mg), 200, '200 are shown');
    my ($plan) = $r->{out} =~ /^plan (\S+):/;
    my $done = cli('operator', 'redrive', '--json', '--plan', $plan,
        '--reason', 'all');
    is($done->{json}{redriven}, 620, 'all are queued again')
        or diag "$done->{out}$done->{err}";
}


# --- audit -------------------------------------------------------------------

{
    my ($id, $key) = submit('letters', 'audit:one:%25');
    is(once('letters', 'echo "no \\033[1m luck" >&2; exit 65'), 1, 'fails');
    is(cli('operator', 'decide', $id, '--action', 'retry', '--reason',
        'look again')->{code}, 0, 'is decided');
    my $r = cli('auditor', 'audit', $key);
    is($r->{code}, 0, 'audit') or diag $r->{err};
    like($r->{out}, qr/^work key +audit:one:%25 \(letters\)$/m, 'the key');
    like($r->{out}, qr/^result +none$/m, 'no result yet');
    like($r->{out}, qr/^open +job \Q$id\E queued /m, 'what is open');
    my ($line) = $r->{out} =~ /\n\n(.*)\z/s;
    my @at = $line =~ /^(\S+) /mg;
    is_deeply(\@at, [ sort @at ], 'the time line is in order');
    my @what = $line =~ /^\S+  (\S+)/mg;
    is_deeply([ grep { $_ ne 'published' } @what ],
        [ qw(request claimed ended action) ], 'what happened') or diag $line;
    like($line, qr/  ended +fail failed .*error=exit code 65 /,
        'how the attempt ended');
    like($line, qr/  action +\S+  ?\Q$me\E .*reason=look again/,
        'who decided, and why');
    like($line, qr/  action .* token_name=operator/, 'by which token');
    unlike($r->{out}, qr/\033/, 'no escape reaches the terminal');

    is(once('letters', 'echo "{\"n\": 1.50}"'), 0, 'it is done');
    $r = cli('auditor', 'audit', $key);
    like($r->{out}, qr/^result +revision 1, fence 2, of job \Q$id\E, /m,
        'the result that stands');
    like($r->{out}, qr/^open +none$/m, 'nothing is open');

    # a page has 200 entries at the most
    $i->http(POST => '/v1/jobs', { token => 'submit', body => {
        kind => 'letters', work_key => 'audit:long' } }) for 1 .. 230;
    my $all = cli('auditor', 'audit', 'audit:long', '--json');
    is(scalar @{ $all->{json}{timeline} }, 230, '--json: one document, all of'
        . ' it') or diag $all->{err};
    is($all->{json}{next}, undef, 'without another page');
    is($all->{json}{work_key}, 'audit:long', 'with its head');
    my %seen;
    $seen{ $_->{job_id} }++ for @{ $all->{json}{timeline} };
    is(scalar keys %seen, 230, 'each once');
    my $some = cli('auditor', 'audit', 'audit:long', '--json', '--limit', 205);
    is(scalar @{ $some->{json}{timeline} }, 205, '--limit');
    isnt($some->{json}{next}, undef, 'and there is more');
    like(cli('auditor', 'audit', 'audit:long', '--limit', 3)->{out},
        qr/\(there is more\)\n\z/, 'which is said to people, too');

    is(cli('auditor', 'audit', 'audit:none')->{code}, 66,
        'a key that nobody knows: 66');
    is(cli('submit', 'audit', $key)->{code}, 77, 'a token that may not: 77');
}


# --- inbox -------------------------------------------------------------------

{
    kind('mail');
    my $id = failed('mail', 'no ink', 'inbox:1');
    my @why = (qw(--reason seen));
    my $r = cli('operator', qw(inbox assign), "job:$id", 'kim', '--due',
        '2030-01-01T00:00:00Z', @why);
    is($r->{code}, 0, 'inbox assign') or diag $r->{err};
    $r = cli('auditor', qw(inbox list --assignee kim));
    like($r->{out}, qr/^job:$id failed \S+Z kim 2030-01-01T00:00:00.000Z it failed after 1 attempt: /,
        'inbox list: a line for each');
    is(() = $r->{out} =~ /\n/g, 1, 'of that assignee');
    is(cli('auditor', qw(inbox list --what gap))->{out}, '', 'no gaps');
    is(cli('auditor', qw(inbox list --state x))->{code}, 65, 'no such state: 65');
    is(cli('operator', qw(inbox assign), "job:$id")->{code}, 64,
        'without a reason: 64');
    is(cli('auditor', qw(inbox dismiss), "job:$id", @why)->{code}, 77,
        'an auditor: 77');
    is(cli('operator', qw(inbox dismiss), "job:$id", @why)->{code}, 0,
        'inbox dismiss');
    is(cli('operator', qw(inbox assign), "job:$id", @why)->{code}, 75,
        'it waits for nobody any more: 75');
    is(cli('operator', qw(inbox assign x), @why)->{code}, 66,
        'no such thing: 66');
}

# --- advice ------------------------------------------------------------------

{
    my $r = cli('auditor', 'advice', 'letters');
    is($r->{code}, 0, 'advice') or diag $r->{err};
    like($r->{out}, qr/^attempts +\d+ measured$/m, 'how many attempts');
    like($r->{out}, qr/^run time +p50 [\d.]+ s .* p99 [\d.]+ s .*max /m,
        'their run time');
    like($r->{out}, qr/^lease now +30 s$/m, 'the lease that it has');
    like($r->{out}, qr/^lease proposed +\d+ s: \S/m, 'and should have, why');
    $r = cli('auditor', 'advice', 'letters', '--recovery', 60, '--json');
    is($r->{json}{recovery_goal_seconds}, 60, '--recovery, --json');
    is(cli('auditor', 'advice', 'nothing')->{code}, 66, 'no such kind: 66');
}

$i->check_sql;
done_testing;
