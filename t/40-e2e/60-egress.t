# Egress, end to end: worker, nginx, interlockd, PostgreSQL, and a provider
# that keeps its own record of what it did.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Provider;
use Interlock::Test;
use Test::More;

my ($i, $p) = Interlock::Provider->beside;
my ($submit, $worker, $operator, $auditor) =
    qw(submit worker operator auditor);
my $n = 0;

sub put_kind {
    my ($path, $doc) = @_;

    my $res = $i->http(PUT => $path, { token => $operator, body => $doc });
    is($res->{status}, 200, "PUT $path") or diag $res->{body};
}

# A running job, and its lease
sub lease {
    my (%opt) = @_;

    my $key = $opt{key} // 'egress:' . ++$n;
    my $res = $i->http(POST => '/v1/jobs', { token => $submit,
        body => { kind => $opt{kind} // 'free', work_key => $key } });
    die "submit: $res->{status} $res->{body}" unless $res->{status} == 202;
    $res = $i->http(POST => '/v1/leases', { token => $worker, body =>
        { worker => 'w', kinds => [ $opt{kind} // 'free' ], max => 1,
          wait => 5 } });
    my $l = $res->{json}{leases}[0] // die "no lease: $res->{body}";
    die 'another key' unless $l->{work_key} eq $key;
    return $l;
}

sub out {
    my ($l, $name, $ref, %opt) = @_;

    return $i->http($opt{method} // 'POST', ($opt{at} // '/out/sample/')
        . ($opt{path} // 'charges'), {
        headers => { 'Interlock-Owner-Token' => $l->{owner_token},
            'Interlock-Effect' => $name, %{ $opt{headers} // {} } },
        body => $opt{body} // { reference => $ref, amount => 5 } });
}

sub owner {
    my ($l, $path, $body) = @_;

    return $i->http(POST => $path, { headers => { Authorization =>
        "Bearer $l->{owner_token}" }, body => $body // {} });
}

sub problem {
    my ($res) = @_;
    my ($name) = ($res->{json}{type} // '') =~ m{([^/]+)\z};
    return "$res->{status} " . ($name // '-');
}

sub effect { $i->http(GET => "/v1/effects/$_[0]", { token => $auditor })->{json} }

sub id { $_[0]{headers}{'interlock-effect-id'} }
sub state { $_[0]{headers}{'interlock-effect-state'} }
sub replayed { $_[0]{headers}{'interlock-effect-replayed'} }


# --- sent once, then answered from the ledger ------------------------------

my $l = lease();
my $res = out($l, 'charge', 'a1', headers =>
    { Authorization => 'Bearer sk_provider' });
is($res->{status}, 200, 'a charge');
is($res->{json}{reference}, 'a1', '... with the provider\'s answer');
is(state($res), 'confirmed', '... confirmed');
is(replayed($res), undef, '... for the first time');
my $e = effect(id($res));
is($e->{state}, 'confirmed', 'the ledger says so');
is($e->{kind}, 'sample-payment', '... its kind');
is($e->{name}, 'charge', '... its name');
is($e->{target}, 'POST /out/sample/charges', '... its target');
is($e->{provider_ref}, $res->{json}{id}, '... the provider\'s reference');
my ($heard) = $p->heard;
is($heard->{key}, $e->{idempotency_key}, 'sent under the effect\'s key');
is($heard->{headers}{authorization}, 'Bearer sk_provider',
    '... and the provider\'s own Authorization');
is(join(' ', grep { /interlock/ } keys %{ $heard->{headers} }), '',
    '... without a header of ours');

my $again = out($l, 'charge', 'a1');
is($again->{status}, 200, 'the same again');
is($again->{body}, $res->{body}, '... gets the same answer');
is($again->{headers}{'content-type'}, $res->{headers}{'content-type'},
    '... of the same type');
is(replayed($again), 'true', '... from the ledger');
is(id($again), id($res), '... the same effect');
is($p->done('a1'), 1, '... and the provider acted once');

is(problem(out($l, 'charge', 'a2')), '409 effect-mismatch',
    'another charge under that name');
is(problem(out($l, 'charge', 'a1', path => 'refunds')), '409 effect-mismatch',
    '... another path');
is(problem(out($l, 'charge', 'a1', at => '/out/mute/')),
    '409 effect-mismatch', '... another kind');
is($p->done, 1, '... never reach the provider');

for my $bad ('', 'x' x 257) {
    is(problem(out($l, $bad, 'a3')), '400 effect-name-invalid',
        'a name of ' . length($bad) . ' bytes');
}
is(problem($i->http(POST => '/out/sample/x', { headers =>
    { 'Interlock-Effect' => 'x' }, body => {} })), '401 owner-token-invalid',
    'without a token');
is(problem($i->http(POST => '/out/sample/x', { headers =>
    { 'Interlock-Effect' => 'x', 'Interlock-Owner-Token' => $worker },
    body => {} })), '401 owner-token-invalid', 'with a token of another sort');
is(problem(out($l, 'comp', 'a4', headers =>
    { 'Interlock-Compensates' => 'nothing' })), '404 compensates-unknown',
    'compensating nothing');
$res = out($l, 'refund', 'a5', headers =>
    { 'Interlock-Compensates' => id($again) });
is($res->{status}, 200, 'compensating the charge');
is(effect(id($res))->{compensates}, id($again), '... is on record');
is($p->done, 2, 'two effects so far');

for my $status (204, 200) {
    $p->next({ act => 1, status => $status, empty => 1 });
    $res = out($l, "empty $status", "e$status");
    is($res->{status}, $status, "an empty $status");
    is(state($res), 'confirmed', '... is an answer');
    $again = out($l, "empty $status", "e$status");
    is($again->{status}, $status, '... again: the status');
    is($again->{body}, '', '... nothing else');
    is(replayed($again), 'true', '... from the ledger');
    is($p->done("e$status"), 1, '... done once');
}
$p->next({ act => 1, status => 201, size => 200_000 });
$res = out($l, 'long', 'a6');
is($res->{status}, 201, 'a long answer');
is(length $res->{json}{pad}, 200_000, '... is whole');
$again = out($l, 'long', 'a6');
is($again->{status}, 201, '... again: the status');
is($again->{json}{effect_id}, id($res), '... and the effect');
is($again->{json}{state}, 'confirmed', '... which is confirmed');
is(replayed($again), 'true', '... from the ledger');
is($p->done('a6'), 1, '... done once');

$p->next({ act => 1, size => 60_000, headers => { 'Content-Type' =>
    'text/x-mine' } });
$res = out($l, 'typed', 'a7');
$again = out($l, 'typed', 'a7');
is($again->{body}, $res->{body}, 'just below 64 KB is stored');
is($again->{headers}{'content-type'}, 'text/x-mine', '... with its type');


# --- what an answer means --------------------------------------------------

my %means = (200 => 'confirmed', 201 => 'confirmed', 202 => 'unknown',
    400 => 'failed', 401 => 'failed', 403 => 'failed', 404 => 'failed',
    405 => 'failed', 408 => 'failed', 409 => 'unknown', 418 => 'unknown',
    422 => 'failed', 429 => 'failed', 500 => 'unknown', 503 => 'unknown');
for my $status (sort keys %means) {
    $p->next($status);
    my $res = out($l, "status $status", "s$status");
    is($res->{status}, $status, "$status: passed on");
    is(state($res), $means{$status}, "$status: $means{$status}");
    is(effect(id($res))->{state}, $means{$status}, '... on record');
}
$res = out($l, 'status 400', 's400');
is(state($res), 'confirmed', 'after a definite no: again');
is(effect(id($res))->{round}, 2, '... in a new round');
$res = out($l, 'status 500', 's500');
is(state($res), 'confirmed', 'after an unclear end, with keys: again');
$e = effect(id($res));
is($e->{round}, 1, '... in the same round');
is_deeply([ map { $_->{key} } grep { ($_->{reference} // '') eq 's500' }
    $p->heard ], [ ($e->{idempotency_key}) x 2 ], '... under the same key');

put_kind('/v1/effect-kinds/sample-payment', { outcome_map => {
    '409' => 'failed', '5xx' => 'failed', '503' => 'retry', '200' =>
    'unknown', connect => 'failed', timeout => 'failed' } });
for ([ 409 => 'failed' ], [ 500 => 'failed' ], [ 503 => 'failed' ],
    [ 200 => 'unknown' ], [ 429 => 'failed' ])
{
    my ($status, $state) = @$_;
    $p->next($status);
    is(state(out($l, "mapped $status", "m$status")), $state,
        "$status by a map: $state");
}
$p->down;
is(state(out($l, 'mapped connect', 'mc')), 'failed', 'nobody there, by a map');
$p->up;
put_kind('/v1/effect-kinds/sample-payment', { outcome_map => undef });

for ([ act_drop => '502 provider-failed' ], [ drop => '502 provider-failed' ],
    [ act_reset => '502 provider-failed' ], [ act_cut => '502 provider-failed' ],
    [ hang => '504 provider-timeout' ])
{
    my ($step, $want) = @$_;
    $p->next($step);
    my $res = out($l, "mute $step", "u$step", at => '/out/mute/');
    is(problem($res), $want, "$step: $want");
    is(state($res), 'unknown', '... unknown');
    is($res->{json}{state}, 'unknown', '... says the problem, too');
    my $e = effect($res->{json}{effect_id});
    like($e->{state}, qr/^(?:unknown|needs_human)$/, '... and the ledger');
    my $before = $p->heard;
    is(problem(out($l, "mute $step", "u$step", at => '/out/mute/')),
        '409 effect-unsettled', '... and it is not sent again');
    is(scalar(my @h = $p->heard), $before, '... by itself');
}
$p->release('drop');

$p->down;
$res = out($l, 'nobody', 'n1');
is(problem($res), '502 provider-failed', 'nobody there');
is(state($res), 'unknown', '... unknown');
$p->up;
is(state(out($l, 'nobody', 'n1')), 'confirmed', '... and again under its key');


# --- two at once, and those who may not ------------------------------------

$l = lease();
$p->next('hang');
my $pid = fork // die;
if (!$pid) {
    out($l, 'slow', 'w1');
    POSIX::_exit(0);
}
$p->wait_for_waiting(1);
$res = out($l, 'slow', 'w1');
is(problem($res), '409 effect-in-progress', 'while it is sent');
is($res->{headers}{'retry-after'}, 1, '... try again later');
is(state($res), 'intended', '... its state');
$p->release('go');
waitpid $pid, 0;
is(state(out($l, 'slow', 'w1')), 'confirmed', '... and then from the ledger');
is($p->done('w1'), 1, '... done once');

my $before = $p->done;
my $lost = lease();
is(owner($lost, '/v1/lease/complete')->{status}, 200, 'an ended attempt');
is(problem(out($lost, 'x', 'l1')), '409 lease-lost', '... is refused');
my $canceled = lease();
$i->http(POST => "/v1/jobs/$canceled->{job_id}/cancel", { token => $operator,
    body => { requested_by => 'me', reason => 'test' } });
is(problem(out($canceled, 'x', 'l2')), '409 job-canceled', 'a canceled one');
my $old = lease(kind => 'index-refresh', key => 'egress:replace');
$res = $i->http(POST => '/v1/jobs', { token => $submit, body =>
    { kind => 'index-refresh', work_key => 'egress:replace',
      payload => { new => 1 } } });
is($res->{json}{decision}, 'replaced', 'a replaced one');
is(problem(out($old, 'x', 'l3')), '409 job-canceled', '... is refused');
put_kind('/v1/kinds/short', { overlap => 'allow', lease_seconds => 4 });
is(problem(out(lease(kind => 'short'), 'x', 'l4')), '409 lease-too-short',
    'one with little time left');
is($p->done, $before, 'nothing of these reached the provider');

# a late outcome of nginx's is heard after the attempt was ended
$l = lease();
$p->next('hang');
$pid = fork // die;
if (!$pid) {
    out($l, 'late', 'z1');
    POSIX::_exit(0);
}
$p->wait_for_waiting(1);
is(owner($l, '/v1/lease/fail', { error => 'gone', retryable => JSON::PP::false })
    ->{status}, 200, 'the owner ends while it is sent');
my ($late) = grep { $_->{name} eq 'late' } @{ $i->http(GET =>
    "/v1/effects?work_key=$l->{work_key}", { token => $auditor })
    ->{json}{items} };
is($late->{state}, 'unknown', '... then it is unknown');
$p->release('go');
waitpid $pid, 0;
is(effect($late->{effect_id})->{state}, 'confirmed', '... until it is heard');
is($p->done('z1'), 1, '... done once');


# --- the backend is not there for a moment ---------------------------------

$l = lease();
$p->next('hang');
$pid = fork // die;
if (!$pid) {
    my $res = out($l, 'away', 'k1');
    POSIX::_exit($res->{status} == 200 && state($res) eq 'confirmed' ? 0 : 1);
}
$p->wait_for_waiting(1);
$i->kill_backend;
$p->release('go');
waitpid $pid, 0;
is($?, 0, 'a backend killed before the record: recorded by the next one');
is($p->done('k1'), 1, '... done once');

is($i->http(POST => '/_interlock/effect', { body => {} })->{status}, 404,
    'the way to the backend is closed');
is(problem($i->http(POST => '/v1/../internal/effect', { body => {},
    headers => { 'INTERLOCK_EFFECT' => '{}', 'Interlock-Effect' => '{}' } })),
    '404 -', '... from every side');

$i->check_sql;
done_testing();
