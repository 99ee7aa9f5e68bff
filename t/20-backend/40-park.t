#!/usr/bin/perl

# Requests that wait: woken by what this process does, by what others do, by
# time; and what becomes of those whose client has gone.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::FastCGI;
use Interlock::Test;

my $i = Interlock::Test->instance(conf => [ 'parked_max = 60' ]);
my %token = map { $_ => $i->token($_) } qw(submit worker operator auditor);
my $c = Interlock::FastCGI->of_instance($i);

sub connection { return Interlock::FastCGI->of_instance($i) }

sub submit {
    my ($kind, $key, %more) = @_;
    my $res = $c->request(POST => '/v1/jobs', { token => $token{submit},
        body => { kind => $kind, work_key => $key, %more } });
    die "submit: $res->{status} $res->{body}" if $res->{status} != 202;
    return $res->{json}{job_id};
}

sub claim {
    my ($d, $wait, @kinds) = @_;
    $d->send(POST => '/v1/leases', { token => $token{worker},
        body => { kinds => \@kinds, wait => $wait } });
    return $d;
}

sub owner {
    my ($verb, $lease, $body) = @_;
    return $c->request(POST => "/v1/lease/$verb",
        { token => $lease->{owner_token}, body => $body // {} });
}

sub kind {
    my ($name, %policy) = @_;
    my $res = $c->request(PUT => "/v1/kinds/$name",
        { token => $token{operator}, body => \%policy });
    die "kind: $res->{body}" if $res->{status} != 200;
}

sub rfc3339 {
    my ($at) = @_;
    my @t = gmtime int $at;
    return sprintf "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", $t[5] + 1900,
        $t[4] + 1, @t[ 3, 2, 1, 0 ], 1000 * ($at - int $at);
}

sub parked { return $i->metrics->{interlock_parked_requests} }

sub wait_parked {
    my ($n) = @_;
    $i->wait_for(sub { parked() == $n }, 10, "$n parked requests");
}

# the batches and the items that the claim lane has run
sub claims {
    my $m = $i->metrics;
    return $m->{'interlock_batch_size_sum{lane="claim"}'} // 0;
}

kind('w', overlap => 'allow', lease_seconds => 30);
kind('x', overlap => 'allow', lease_seconds => 30);
kind('retry', overlap => 'allow', backoff => 1, max_backoff => 1,
    max_attempts => 5);
kind('one', overlap => 'buffer_one', lease_seconds => 30);
kind('short', overlap => 'allow', lease_seconds => 1, backoff => 1);

# --- woken by a submission -------------------------------------------------

my $d = claim(connection(), 20, 'w');
wait_parked(1);
my $t0 = time;
my $job = submit('w', 'k:1');
my $res = $d->response(5);
my $ms = (time - $t0) * 1000;
is($res->{json}{leases}[0]{job_id}, $job, 'a parked claim gets the job');
cmp_ok($ms, '<', 300, sprintf('in %.1f ms', $ms));
owner('complete', $res->{json}{leases}[0]);

# --- time ------------------------------------------------------------------

$t0 = time;
$res = claim(connection(), 1, 'w')->response(5);
is($res->{body}, '{"leases":[]}', 'nothing within a second: an empty list');
cmp_ok(time - $t0, '>=', 0.95, 'not before its time');
cmp_ok(time - $t0, '<', 2, 'nor much later');
$t0 = time;
$res = $c->request(POST => '/v1/leases', { token => $token{worker},
    body => { kinds => ['w'] } });
is($res->{body}, '{"leases":[]}', 'without wait');
cmp_ok(time - $t0, '<', 0.5, 'at once');

# --- as many as there is work for ------------------------------------------

my @w = map { claim(connection(), 30, $_ % 2 ? 'w' : ('w', 'x')) } 1 .. 5;
wait_parked(5);
push @w, map { claim(connection(), 30, $_ % 2 ? 'w' : ('w', 'x')) } 6 .. 30;
wait_parked(30);
my $before = claims();
my @jobs = map { submit('w', "many:$_") } 1 .. 5;
my (%got, %served);
$i->wait_for(sub {
    for my $n (grep { !$served{$_} } 0 .. 29) {
        my $r = $w[$n]->response(0) // next;
        $served{$n} = 1;
        $got{ $r->{json}{leases}[0]{job_id} } = 1;
        owner('complete', $r->{json}{leases}[0]);
    }
    return keys %served == 5;
}, 5, 'five to be served');
wait_parked(25);
is(scalar(grep { $got{$_} } @jobs), 5, 'five jobs go to five workers');
# Who looks for forgotten work once a second may see a job whose claim is under
# way, and wake one more for it.
my $more = claims() - $before - 5;
my ($last) = sort { $b <=> $a } keys %served;
cmp_ok($last, '<=', 4 + $more, 'to those that wait longest');
cmp_ok($more, '<=', 5, 'and no more claims were made than about that');
$job = submit('x', 'x:1');
$res = $i->wait_for(sub {
    for my $n (grep { !$served{$_} } 0 .. 29) {
        my $r = $w[$n]->response(0);
        return $r if $r;
    }
    return undef;
}, 5, 'one more to be served');
is(parked(), 24, 'just one');
is($res->{json}{leases}[0]{job_id}, $job, 'the other kind wakes one too');
owner('complete', $res->{json}{leases}[0]);

# --- clients that go away --------------------------------------------------

$_->close for @w;
wait_parked(0);
pass('clients that have gone free their places');

$d = claim(connection(), 30, 'w');
wait_parked(1);
$i->psql(q{
create function public.slow() returns trigger language plpgsql as $$
begin perform pg_sleep(0.7); return new; end $$;
create trigger slow before insert on interlock.leases
    for each row execute function public.slow();
});
$job = submit('w', 'gone:1');
sleep(0.2);                         # the claim is in the database now
$d->close;
$i->wait_for(sub { ($i->metrics->{
    'interlock_claims_handed_back_total{kind="w"}'} // 0) == 1 }, 10,
    'the lease to be handed back');
$i->psql('drop trigger slow on interlock.leases; drop function '
    . 'public.slow()');
is($i->psql('select count(*) from interlock.leases'), 0,
    'a claim whose answer cannot be written is handed back');
$res = $c->request(POST => '/v1/leases', { token => $token{worker},
    body => { kinds => ['w'] } });
is($res->{json}{leases}[0]{job_id}, $job, 'and goes to the next');
is($res->{json}{leases}[0]{attempt}, 1, 'the attempt was not counted');
owner('complete', $res->{json}{leases}[0]);

# --- retries, releases, promotions, recoveries -----------------------------

$job = submit('retry', 'r:1');
$res = claim(connection(), 5, 'retry')->response(5);
$d = claim(connection(), 20, 'retry');
wait_parked(1);
my $retry = owner('fail', $res->{json}{leases}[0],
    { error => 'x', retryable => JSON::PP::true, retry_after => 2 });
$t0 = time;
$res = $d->response(10);
is($res->{json}{leases}[0]{job_id}, $job, 'a retry wakes a claim');
is($res->{json}{leases}[0]{attempt}, 2, 'as the second attempt');
cmp_ok(time - $t0, '>', 1.5, 'not before it is due');
cmp_ok(time - $t0, '<', 2.7, 'and soon after');

$d = claim(connection(), 20, 'retry');
wait_parked(1);
$t0 = time;
owner('release', $res->{json}{leases}[0]);
$res = $d->response(5);
is($res->{json}{leases}[0]{job_id}, $job, 'a release wakes a claim');
cmp_ok(time - $t0, '<', 0.5, 'at once');
owner('complete', $res->{json}{leases}[0]);

submit('one', 'o:1');
$res = claim(connection(), 5, 'one')->response(5);
my $second = submit('one', 'o:1');
$d = claim(connection(), 20, 'one');
wait_parked(1);
$t0 = time;
owner('complete', $res->{json}{leases}[0]);
$res = $d->response(5);
is($res->{json}{leases}[0]{job_id}, $second,
    'the end of the active job wakes a claim for the one behind it');
cmp_ok(time - $t0, '<', 0.5, 'at once');
owner('complete', $res->{json}{leases}[0]);

$job = submit('short', 's:1');
claim(connection(), 5, 'short')->response(5);
$res = claim(connection(), 20, 'short')->response(20);
is($res->{json}{leases}[0]{job_id}, $job,
    'a lost attempt is recovered and goes to a claim that waits');
cmp_ok($res->{json}{leases}[0]{fence}, '>', 1, 'with a higher fence');
cmp_ok($i->metrics->{'interlock_stale_recovery_total{kind="short"}'}, '>=',
    1, 'and is counted');

$job = submit('w', 'later:1', run_after => rfc3339(time + 2));
$t0 = time;
$res = claim(connection(), 20, 'w')->response(20);
is($res->{json}{leases}[0]{job_id}, $job, 'a job for later wakes a claim');
cmp_ok(time - $t0, '<', 2.7, 'when it is due');
owner('complete', $res->{json}{leases}[0]);

# --- what this process did not do ------------------------------------------

$d = claim(connection(), 20, 'w');
wait_parked(1);
$t0 = time;
$i->psql(q{select * from interlock.submit(array[(select id from
    interlock.tenants where name = 'demo')], array[gen_random_uuid()],
    array['api'], array[null::text], array['\x00'::bytea], array['reject'],
    array['w'], array['else:1'], array[null::bigint], array['{}'::bytea],
    array['application/json'], array[null::text], array[null::text],
    array[null::int], array[null::timestamptz], array[null::timestamptz],
    array[false], array[null::text], array[null::text], false)});
$res = $d->response(5);
is($res->{json}{leases}[0]{work_key}, 'else:1',
    "another process's job is found");
cmp_ok(time - $t0, '<', 1.6, 'within about a second');
$second = $res->{json}{leases}[0];

# --- jobs ------------------------------------------------------------------

sub look {
    my ($id, $wait) = @_;
    my $e = connection();
    $e->send(GET => "/v1/jobs/$id", { token => $token{auditor},
        headers => { prefer => "respond-async, wait=$wait" } });
    return $e;
}

my @looks = map { look($second->{job_id}, 20) } 1 .. 10;
wait_parked(10);
$t0 = time;
owner('complete', $second);
is($looks[$_]->response(5)->{json}{status}, 'succeeded', "wait $_ has its end")
    for 0 .. $#looks;
cmp_ok(time - $t0, '<', 0.7, 'at once');
is(look($second->{job_id}, 20)->response(1)->{json}{status}, 'succeeded',
    'of an ended job: at once');

$job = submit('w', 'watched');
$t0 = time;
is(look($job, 1)->response(5)->{json}{status}, 'queued',
    'when the time is up: as it is');
cmp_ok(time - $t0, '>=', 0.95, 'not before');
$d = look($job, 20);
wait_parked(1);
$t0 = time;
$i->psql("update interlock.jobs set status = 'canceled', place = null, "
    . "finished_at = clock_timestamp() where id = '$job'");
is($d->response(5)->{json}{status}, 'canceled',
    'an end that another process made');
cmp_ok(time - $t0, '<', 2.2, 'within about a second');
is(look('0198a000-0000-7000-8000-000000000000', 20)->response(2)->{status},
    404, 'a job that is not: 404 at once');
$d = look(submit('w', 'left'), 30);
wait_parked(1);
$d->close;
wait_parked(0);
pass('a wait whose client has gone frees its place');

# --- the bound -------------------------------------------------------------

@w = map { claim(connection(), 30, 'x') } 1 .. 60;
wait_parked(60);
$res = claim(connection(), 30, 'x')->response(5);
is($res->{status}, 503, 'beyond parked_max: 503');
is($res->{headers}{'retry-after'}, 1, 'with Retry-After');
is($c->request(POST => '/v1/leases', { token => $token{worker},
    body => { kinds => ['x'] } })->{status}, 200, 'without wait: as ever');
$_->close for @w;
wait_parked(0);

done_testing();
