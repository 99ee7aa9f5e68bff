#!/usr/bin/perl

# What comes after a loss: what the next owner is told, what an operator
# decides, dead letters taken back by plan, cancel in every state.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use Test::More;
use Time::HiRes qw(time);

use Interlock::FastCGI;
use Interlock::Test;

my $i = Interlock::Test->instance(conf => [ 'recover_interval = 100ms' ]);
my $c = Interlock::FastCGI->of_instance($i);
my %token = map { $_ => $i->token($_) } qw(submit worker operator auditor);
for my $role (qw(submit operator auditor)) {
    my $file = $i->dir . "/tokens/other-$role";
    my $r = $i->cli('token', 'create', '--dsn-file', $i->dir . '/dsn',
        '--tenant', 'other', '--name', $role, '--role', $role, '--out',
        $file);
    die $r->{err} if $r->{code};
    $token{"other-$role"} = Interlock::Test::slurp($file) =~ s/\s+\z//r;
}
my $nobody = '0198a000-0000-7000-8000-000000000000';
my %who = (requested_by => 'kim', reason => 'seen to');

sub call {
    my ($method, $uri, $opt) = @_;
    my %o = %{ $opt // {} };
    $o{token} = $token{ delete $o{role} } if $o{role};
    return $c->request($method, $uri, \%o);
}

sub problem_is {
    my ($res, $status, $name, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is("$res->{status} " . ($res->{json}{type} // $res->{body}),
        "$status https://interlock.invalid/problems/$name", $what);
    cmp_ok(length($res->{json}{detail} // ''), '>', 5, 'with a detail');
}

sub kind {
    my ($name, %policy) = @_;
    my $r = call(PUT => "/v1/kinds/$name", { role => 'operator',
        body => \%policy });
    is($r->{status}, 200, "(kind $name)") or diag $r->{body};
}

sub submit {
    my ($kind, $key, %more) = @_;
    my $r = call(POST => '/v1/jobs', { role => 'submit',
        body => { kind => $kind, work_key => $key, %more } });
    die "submit: $r->{status} $r->{body}" unless $r->{status} =~ /^20/;
    return $r->{json}{job_id};
}

sub claim {
    my ($kind, $wait) = @_;
    my $r = Interlock::FastCGI->once($i, POST => '/v1/leases', {
        token => $token{worker},
        body => { kinds => [$kind], wait => $wait // 5 } });
    return wantarray ? ($r->{json}{leases}[0], $r) : $r->{json}{leases}[0];
}

sub owner {
    my ($verb, $lease, $body) = @_;
    return $c->request(POST => "/v1/lease/$verb",
        { token => $lease->{owner_token}, body => $body // {} });
}

sub job {
    my ($id) = @_;
    return call(GET => "/v1/jobs/$id", { role => 'auditor' })->{json};
}

sub until_status {
    my ($id, $status) = @_;
    return $i->wait_for(sub {
        my $j = job($id);
        $j->{status} eq $status ? $j : undef;
    }, 15, "job $id to be $status");
}

sub decide {
    my ($id, $action, %more) = @_;
    return call(POST => "/v1/jobs/$id/decide", { role => 'operator',
        body => { action => $action, %who, %more } });
}

# roles_are(METHOD, uri, body, roles that may): the others get 403, nobody 401
sub roles_are {
    my ($method, $uri, $body, @may) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my %may = map { $_ => 1 } @may;
    my @wrong = grep {
        my $s = call($method, $uri, { role => $_, body => $body })->{status};
        ($s == 403) == ($may{$_} // 0)
    } qw(submit worker operator auditor);
    is("@wrong", '', "$method $uri: @may, and no other role");
    is(call($method, $uri, { body => $body })->{status}, 401,
        'and with a token');
}

kind('go', overlap => 'skip', backoff => 0, max_attempts => 9);
kind('short', overlap => 'skip', lease_seconds => 1, on_lost => 'retry');
kind('hold', overlap => 'skip', lease_seconds => 1, on_lost => 'hold');
kind('line', overlap => 'buffer_all', lease_seconds => 20, max_waiting => 1,
    overflow => 'park', cancel_grace => 1);
kind('dead', overlap => 'allow', max_attempts => 1);


# --- what the next owner is told -------------------------------------------

my $id = submit('go', 'go:1');
my $lease = claim('go');
is_deeply([ @$lease{qw(step checkpoint attempts effects)} ],
    [ undef, undef, [], [] ], 'a first attempt: no step, no checkpoint, no '
    . 'attempts, no effects');
my $checkpoint = '{"n":123456789012345678901234567890,"f":1.10,"s":"\u00e9"}';
is(owner('progress', $lease, '{"progress":{"done":3,"total":9},"step":"sum",'
    . "\"checkpoint\":$checkpoint}")->{status}, 200, 'it leaves a checkpoint');
is(owner('fail', $lease, { error => 'disk full', log_url =>
    'https://logs.example/1' })->{status}, 200, 'and fails');

my ($again, $raw) = claim('go');
is($again->{job_id}, $id, 'the same job again');
is($again->{step}, 'sum', 'with its step');
like($raw->{body}, qr/"checkpoint":\Q$checkpoint\E[,}]/,
    'with its checkpoint, byte for byte');
my $attempts = $again->{attempts};
is(@$attempts, 1, 'with its earlier attempt');
is_deeply([ @{ $attempts->[0] }{qw(attempt call error step log_url fence)} ],
    [ 1, 'fail', 'disk full', 'sum', 'https://logs.example/1',
      $lease->{fence} ], 'and how that one ended');
ok($attempts->[0]{worker} && $attempts->[0]{started_at} =~ /Z$/
    && $attempts->[0]{ended_at} =~ /Z$/, 'and whose it was, and when');
owner('fail', $again, { error => 'again' });
$again = claim('go');
is(join(' ', map { $_->{error} } @{ $again->{attempts} }),
    'disk full again', 'the oldest first');
owner('complete', $again);

$id = submit('short', 'short:1');
$lease = claim('short');
owner('progress', $lease, { step => 'half', checkpoint => [ 1, 2 ] });
$again = claim('short', 20);
is($again->{job_id}, $id, 'a lost attempt: the job again');
is_deeply($again->{checkpoint}, [ 1, 2 ], 'its checkpoint is there');
is($again->{attempts}[0]{call}, 'lost', 'and that the first one was lost');
is(owner('progress', $lease, { checkpoint => 'stale' })->{status}, 409,
    'a stale owner leaves no checkpoint');
owner('fail', $again, { error => 'x', retryable => JSON::PP::false });

my %m = %{ $i->metrics };
cmp_ok($m{'interlock_stale_recovery_total{kind="short"}'} // 0, '>=', 1,
    'the loss is counted');
is((grep { /^interlock_fence_refusals_total\{.*call="progress"\}/ }
    keys %m) > 0 ? 1 : 0, 1, 'and the refusal, by call');


# --- decide ----------------------------------------------------------------

# a held job: lost, and its kind says hold
my $held = 0;
sub held {
    my $id = submit('hold', 'hold:' . ++$held);
    my $lease = claim('hold');
    die "another job\n" if $lease->{job_id} ne $id;
    return (until_status($id, 'held'), $lease);
}

my ($job, $lost) = held();
$id = $job->{job_id};
is($job->{waits_for}, 'decision', 'a lost attempt of a kind that holds waits '
    . 'for a decision');
is(owner('complete', $lost, { result => 1 })->{status}, 409,
    'its lost owner completes nothing');

my $uri = "/v1/jobs/$id/decide";
roles_are(POST => $uri, { nonsense => 1 }, 'operator');
problem_is(decide($nobody, 'retry'), 404, 'not-found', 'no such job');
problem_is(decide('nonsense', 'retry'), 404, 'not-found', 'no job at all');
problem_is(call(POST => $uri, { role => 'other-operator',
    body => { action => 'retry', %who } }), 404, 'not-found',
    "another tenant's job");
for my $row (
    [ { action => 'retry', reason => 'x' }, 'field-invalid' ],
    [ { action => 'retry', requested_by => 'x' }, 'field-invalid' ],
    [ { action => 'retry', requested_by => '', reason => 'x' },
      'field-invalid' ],
    [ { action => 'retry', requested_by => 'x', reason => '' },
      'field-invalid' ],
    [ { action => 'retry', requested_by => ' ', reason => 'x' },
      'field-invalid' ],
    [ { action => 'retry', requested_by => 7, reason => 'x' },
      'field-invalid' ],
    [ { %who }, 'field-invalid' ],
    [ { action => 'assign', %who }, 'field-invalid' ],
    [ { action => '', %who }, 'field-invalid' ],
    [ { action => ['retry'], %who }, 'field-invalid' ],
    [ { action => 'retry', %who, reason => 'x' x 1025 }, 'field-invalid' ],
    [ { action => 'retry', %who, colour => 'red' }, 'unknown-field' ],
    [ '', 'json-invalid' ], [ '{', 'json-invalid' ])
{
    my ($body, $name) = @$row;
    problem_is(call(POST => $uri, { role => 'operator', body => $body }), 400,
        $name, ref $body ? join(' ', map { "$_=" . substr($body->{$_}, 0, 9) }
            sort keys %$body) : "body '$body'");
}
is(job($id)->{status}, 'held', 'none of these changed anything');

my $d = Interlock::FastCGI->of_instance($i);
$d->send(POST => '/v1/leases', { token => $token{worker},
    body => { kinds => ['hold'], wait => 20 } });
$i->wait_for(sub { $i->metrics->{interlock_parked_requests} == 1 }, 5,
    'a claim to wait');
my $res = decide($id, 'retry', assignee => 'lee');
is($res->{status}, 200, 'retry of a held job') or diag $res->{body};
is($res->{json}{job_id}, $id, 'answers with the job');
is($res->{json}{status}, 'queued', 'which is queued');
is($res->{json}{assignee}, 'lee', 'and who looks after it');
$lease = $d->response(5)->{json}{leases}[0];
is($lease->{job_id}, $id, 'a claim that waits gets it');
cmp_ok($lease->{fence}, '>', $lost->{fence}, 'with a higher fence');
problem_is(decide($id, 'retry'), 409, 'decision-not-possible',
    'not while it runs');
is(owner('complete', $lease, { result => 2 })->{status}, 200,
    'it is completed');
problem_is(decide($id, 'fail'), 409, 'decision-not-possible',
    'nor when it has succeeded');
like(decide($id, 'fail')->{json}{detail}, qr/succeeded/,
    'the detail names the status');
my ($row) = $i->sql('select requested_by, reason, token_name, '
    . "token_id is not null, detail ->> 'action' from interlock.actions "
    . "where target = '$id'");
is_deeply($row, [ 'kim', 'seen to', 'operator', 't', 'retry' ],
    'who, why, and by which token, is kept');

($job) = held();
$d = Interlock::FastCGI->of_instance($i);
$d->send(GET => "/v1/jobs/$job->{job_id}", { token => $token{auditor},
    headers => { prefer => 'wait=20' } });
$i->wait_for(sub { $i->metrics->{interlock_parked_requests} == 1 }, 5,
    'somebody to wait for its end');
my $t0 = time;
is(decide($job->{job_id}, 'succeed')->{json}{status}, 'succeeded', 'succeed');
is($d->response(5)->{json}{status}, 'succeeded', 'who waits is told');
cmp_ok(time - $t0, '<', 0.8, 'at once');

($job) = held();
$res = decide($job->{job_id}, 'fail');
is($res->{json}{status}, 'failed', 'fail');
like($res->{json}{error}, qr/kim.*seen to/, 'with who said so, and why');
problem_is(decide($job->{job_id}, 'release'), 409, 'decision-not-possible',
    'a failed one is not released');
is(decide($job->{job_id}, 'retry')->{json}{status}, 'queued',
    'but tried again');
$lease = claim('hold');
is($lease->{job_id}, $job->{job_id}, 'by the next claim');
owner('complete', $lease);

($job) = held();
is(decide($job->{job_id}, 'release')->{json}{status}, 'queued', 'release');
$lease = claim('hold');
is($lease->{job_id}, $job->{job_id}, 'hands it out again');
owner('complete', $lease);

# parked ones
my $head = submit('line', 'line:1');
my $second = submit('line', 'line:1');
my @parked = map { submit('line', 'line:1') } 1 .. 2;
is(job($_)->{status}, 'parked', '(parked)') for @parked;
problem_is(decide($parked[0], 'retry'), 409, 'decision-not-possible',
    'a parked job is not tried again');
is(decide($parked[0], 'fail')->{json}{status}, 'failed', 'but failed');
is(decide($parked[1], 'release')->{json}{status}, 'queued', 'or let in');
problem_is(decide($parked[0], 'retry'), 409, 'work-active',
    'a failed job whose line is full');
problem_is(decide($second, 'fail'), 409, 'decision-not-possible',
    'one that waits in line needs no decision');


# --- redrive ---------------------------------------------------------------

sub redrive {
    my (%body) = @_;
    return call(POST => '/v1/redrive', { role => 'operator',
        body => \%body });
}

sub dead {
    my ($n, $error) = @_;
    my $res = call(POST => '/v1/jobs:batch', { role => 'submit', body => {
        jobs => [ map { { kind => 'dead', work_key => "dead:$error:$_",
            idempotency_key => "dead-$error-$_" } } 1 .. $n ] } });
    my $left = $n;
    while ($left > 0) {
        my $r = call(POST => '/v1/leases', { role => 'worker',
            body => { kinds => ['dead'], max => 100 } });
        for my $lease (@{ $r->{json}{leases} }) {
            owner('fail', $lease, { error => $error,
                retryable => JSON::PP::false });
            $left--;
        }
    }
    return map { $_->{job_id} } @{ $res->{json}{items} };
}

my @red = dead(3, 'red');
my @blue = dead(2, 'blue');
$i->wait_for(sub { ($i->metrics->{
    'interlock_dead_letters{kind="dead",tenant="demo"}'} // 0) == 5 }, 5,
    'dead letters to be shown');
pass('dead letters are a gauge');

roles_are(POST => '/v1/redrive', { nonsense => 1 }, 'operator');
problem_is(redrive(), 400, 'field-invalid', 'neither filter nor plan');
problem_is(redrive(filter => 'all'), 400, 'field-invalid', 'no filter');
problem_is(redrive(filter => { colour => 'red' }), 400, 'unknown-field',
    'an unknown filter');
problem_is(redrive(filter => { max => 10001 }), 400, 'field-invalid',
    'too many');
problem_is(redrive(filter => { error => "a\0b" }), 400, 'field-invalid',
    'a NUL');
problem_is(redrive(filter => { since => 'yesterday' }), 400, 'field-invalid',
    'no time');
problem_is(redrive(plan_id => $nobody), 400, 'field-invalid',
    'a plan, but nobody asks for it');
problem_is(redrive(plan_id => $nobody, requested_by => 'x'), 400,
    'field-invalid', 'and for no reason');
problem_is(redrive(plan_id => $nobody, %who), 404, 'not-found',
    'no such plan');
problem_is(redrive(plan_id => 'x', %who), 404, 'not-found',
    'no plan at all');

$res = redrive(filter => { kind => 'dead', error => 're' });
is($res->{status}, 200, 'a plan') or diag $res->{body};
is($res->{json}{count}, 3, 'of how many');
is(join(' ', sort map { $_->{job_id} } @{ $res->{json}{jobs} }),
    join(' ', sort @red), 'and which');
is(job($red[0])->{status}, 'failed', 'a plan changes nothing');
my $plan = $res->{json}{plan_id};
problem_is(call(POST => '/v1/redrive', { role => 'other-operator',
    body => { plan_id => $plan, %who } }), 404, 'not-found',
    "another tenant's plan");
problem_is(redrive(plan_id => $plan, filter => {}, %who), 400,
    'field-invalid', 'a plan has its filter');
problem_is(redrive(plan_id => $plan, filter => { nosuch => 1 }, %who), 400,
    'unknown-field', 'nor one that is none');
is_deeply($res->{json}{succeeded_since}, { count => 0, job_ids => [] },
    'nothing is left out: its overlap is allow');
problem_is(redrive(filter => { succeeded_since => 1 }), 400, 'field-invalid',
    'succeeded_since is yes or no');

is(decide($red[1], 'retry')->{json}{status}, 'queued',
    '(one is tried again meanwhile)');
problem_is(redrive(plan_id => $plan, requested_by => "\t\x{a0} ",
    reason => 'why'), 400, 'field-invalid', 'blanks are no name');
$res = redrive(plan_id => $plan, filter => { error => 're', kind => 'dead',
    max => 10000 }, %who);
is($res->{status}, 200, 'the plan is carried out, named by its filter, too') or diag $res->{body};
is($res->{json}{redriven}, 2, 'two jobs');
is(join(' ', map { $_->{job_id} } @{ $res->{json}{skipped} }), $red[1],
    'the third is skipped, and named');
is(job($red[0])->{status}, 'queued', 'they are queued again');
is(job($blue[0])->{status}, 'failed', 'the others are not');
is_deeply(redrive(plan_id => $plan, %who)->{json}, $res->{json},
    'again: the same answer');
is($i->psql('select count(*) from interlock.actions '
    . "where what = 'redrive' and requested_by = 'kim'"), 2,
    'once for each job that was redriven');
owner('complete', claim('dead')) for 1 .. 3;

# more than one transaction's worth
my @many = dead(500, 'many');
push @many, dead(500, 'more');
push @many, dead(203, 'most');
$plan = redrive(filter => { kind => 'dead', error => 'm' })->{json};
is($plan->{count}, 1203, 'a plan of 1203 jobs');
is(@{ $plan->{jobs} }, 200, 'shows the first 200');
$t0 = time;
$res = redrive(plan_id => $plan->{plan_id}, %who);
note(sprintf '1203 jobs redriven in %.1f s', time - $t0);
is($res->{json}{redriven}, 1203, 'all of it is carried out');
is_deeply($res->{json}{skipped}, [], 'none is skipped');
is($i->psql('select count(*) from interlock.jobs '
    . "where kind = 'dead' and status = 'queued'"), 1203, 'all are queued');


# --- cancel, in each state -------------------------------------------------

sub cancel {
    my ($id, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $res = call(POST => "/v1/jobs/$id/cancel", { role => 'operator',
        body => \%who });
    is($res->{status}, 202, "cancel: $what") or diag $res->{body};
    return $res->{json};
}

sub canceled {
    my ($id, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $j = cancel($id, $what);
    is($j->{status}, 'canceled', 'at once');
    ok($j->{finished_at} && !$j->{cancel_requested}, 'and that is all');
    problem_is(call(POST => "/v1/jobs/$id/cancel", { role => 'operator',
        body => \%who }), 409, 'job-final', 'not twice');
}

kind('stop', overlap => 'buffer_all', max_waiting => 1, overflow => 'park',
    cancel_grace => 1, lease_seconds => 30, backoff => 600,
    limits => ['one']);
is(call(PUT => '/v1/limits/one', { role => 'operator',
    body => { capacity => 1 } })->{status}, 200, '(a limit)');
my $running = submit('stop', 'stop:1');
$lease = claim('stop');
is($lease->{job_id}, $running, '(one runs)');
canceled(submit('stop', 'stop:2'), 'limited');
my $blocked = submit('stop', 'stop:1');
my $parked = submit('stop', 'stop:1');
is(job($blocked)->{waits_for}, 'work key', '(one waits for its key)');
is(job($parked)->{status}, 'parked', '(one is parked)');
canceled($parked, 'parked');
canceled($blocked, 'behind another');
canceled(submit('free', 'stop:3'), 'ready');
canceled(submit('free', 'stop:4', run_after => '2099-01-01T00:00:00Z'),
    'for later');
($job) = held();
canceled($job->{job_id}, 'held');

kind('look', overlap => 'skip', lease_seconds => 1, on_lost => 'check',
    result_check => { type => 'worker', delay => 600 });
$id = submit('look', 'stop:5');
claim('look');
is(until_status($id, 'checking')->{waits_for}, 'result check',
    '(one is looked into)');
problem_is(decide($id, 'nonsense'), 400, 'field-invalid', '(no decision)');
canceled($id, 'checking');

owner('fail', $lease, { error => 'later' });
is(job($running)->{status}, 'queued', '(it is to be tried again, much later)');
canceled($running, 'between two attempts');

# running: the worker is told; one that never listens is ended
$id = submit('line', 'stop:6');
$lease = claim('line');
owner('complete', $lease), $lease = claim('line')
    while $lease->{job_id} ne $id;
my $j = cancel($id, 'running');
is("$j->{status} $j->{cancel_requested}", 'running 1', 'it is asked to end');
is(owner('renew', $lease)->{json}{cancel_requested}, JSON::PP::true,
    'a renewal says so');
problem_is(owner('progress', $lease, { step => 'on' }), 409, 'job-canceled',
    'progress is refused');
problem_is(owner('complete', $lease, { result => 1 }), 409, 'job-canceled',
    'and so is the result');
$j = until_status($id, 'canceled');
is($j->{cancel_requested}, JSON::PP::false,
    'after its grace it has ended, and is no longer asked to');
problem_is(owner('renew', $lease), 409, 'lease-lost', 'its owner is one no '
    . 'more');
problem_is(owner('complete', $lease, { result => 1 }), 409, 'lease-lost',
    'whatever it calls');

$id = submit('line', 'stop:7');
$lease = claim('line');
owner('complete', $lease), $lease = claim('line')
    while $lease->{job_id} ne $id;
cancel($id, 'running, and it yields');
is(owner('release', $lease)->{status}, 200, 'by release');
is(job($id)->{status}, 'canceled', 'which ends it at once');
problem_is(call(POST => "/v1/jobs/$nobody/cancel", { role => 'operator',
    body => \%who }), 404, 'not-found', 'no such job');

$i->check_sql;
done_testing();
