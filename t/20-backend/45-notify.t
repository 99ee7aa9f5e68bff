#!/usr/bin/perl

# Two interlockd of one database: what one of them does wakes what waits in
# the other, without a poll; and what becomes of it when the connection for
# that is cut.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use List::Util qw(max);
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::FastCGI;
use Interlock::Test;

my $i = Interlock::Test->instance;
my %token = map { $_ => $i->token($_) } qw(submit worker operator auditor);
my $other = $i->another_backend('second');
my $c = Interlock::FastCGI->of_instance($i);
my $o = Interlock::FastCGI->new($other->{socket});

sub submit {
    my ($conn, $kind, $key, %more) = @_;
    my $res = $conn->request(POST => '/v1/jobs', { token => $token{submit},
        body => { kind => $kind, work_key => $key, %more } });
    die "submit: $res->{status} $res->{body}" if $res->{status} != 202;
    return $res->{json}{job_id};
}

sub claim {
    my ($conn, $wait, @kinds) = @_;
    $conn->send(POST => '/v1/leases', { token => $token{worker},
        body => { kinds => \@kinds, wait => $wait } });
    return $conn;
}

sub look {
    my ($conn, $id, $wait) = @_;
    $conn->send(GET => "/v1/jobs/$id", { token => $token{auditor},
        headers => { prefer => "wait=$wait" } });
    return $conn;
}

sub owner {
    my ($conn, $verb, $lease, $body) = @_;
    return $conn->request(POST => "/v1/lease/$verb",
        { token => $lease->{owner_token}, body => $body // {} });
}

# a gauge or counter of one of them, over a connection of its own
sub metric {
    my ($socket, $name) = @_;
    my $text = Interlock::FastCGI->new($socket)->request(GET => '/metrics')
        ->{body};
    return ($text =~ /^interlock_\Q$name\E (\S+)$/m)[0];
}

my $mine = Interlock::FastCGI::socket_path($i);

sub wait_metric {
    my ($socket, $name, $want) = @_;
    $i->wait_for(sub { (metric($socket, $name) // '') eq $want }, 10,
        "$name $want");
}

sub new_other { return Interlock::FastCGI->new($other->{socket}) }

$c->request(PUT => '/v1/kinds/w', { token => $token{operator},
    body => { overlap => 'allow' } });
$c->request(PUT => '/v1/kinds/x', { token => $token{operator},
    body => { overlap => 'allow' } });

wait_metric($_, 'notify_peers', 1) for $mine, $other->{socket};
is(metric($_, 'notify_up'), 1, 'each hears') for $mine, $other->{socket};

# --- a submission here wakes a claim there ---------------------------------

# both waits of a round are there: the claim is parked in the other
sub rounds {
    my ($n, $what) = @_;
    my (@claims, @ends);
    for my $k (1 .. $n) {
        my $parked = claim(new_other(), 20, 'w');
        wait_metric($other->{socket}, 'parked_requests', 1);
        my $t0 = time;
        my $job = submit($c, 'w', "$what:$k");
        my $res = $parked->response(10);
        push @claims, 1000 * (time - $t0);
        $res->{json}{leases}[0]{job_id} eq $job or die "another job\n";

        my $waits = look(new_other(), $job, 20);
        wait_metric($other->{socket}, 'parked_requests', 1);
        $t0 = time;
        owner($c, 'complete', $res->{json}{leases}[0]);
        my $end = $waits->response(10);
        push @ends, 1000 * (time - $t0);
        $end->{json}{status} eq 'succeeded' or die "$end->{body}\n";
    }
    return ([ sort { $a <=> $b } @claims ], [ sort { $a <=> $b } @ends ]);
}

sub quantile {
    my ($list, $q) = @_;
    return $list->[ max(0, int($q * @$list + 0.999) - 1) ];
}

my @times = rounds(100, 'one');
for my $row ([ 'a parked claim in the other', $times[0] ],
    [ 'a job wait in the other', $times[1] ])
{
    my ($what, $list) = @$row;
    my ($p50, $p99) = map { quantile($list, $_) } 0.5, 0.99;
    note(sprintf '%s: p50 %.1f ms, p99 %.1f ms', $what, $p50, $p99);
    cmp_ok($p50, '<', 50, "$what: the median is far below the poll's second");
    cmp_ok($p99, '<', 300, 'and so is p99');
}
ok((metric($mine, 'notify_messages_total{direction="sent"}') // 0) > 100,
    'messages were sent here');
ok((metric($other->{socket},
    'notify_messages_total{direction="received"}') // 0) > 100,
    'and received there');

# the other way round, several at once
my @parked = map { claim(Interlock::FastCGI->of_instance($i), 20, 'w') }
    1 .. 5;
wait_metric($mine, 'parked_requests', 5);
my $t0 = time;
submit($o, 'w', "back:$_") for 1 .. 5;
my %got;
for (@parked) {
    my $lease = $_->response(10)->{json}{leases}[0];
    $got{ $lease->{work_key} }++;
    owner($c, 'complete', $lease);
}
is(join(' ', sort keys %got), join(' ', map { "back:$_" } 1 .. 5),
    'five jobs of the other one go to five claims here');
cmp_ok(time - $t0, '<', 0.9, 'before a poll');

# --- other ends, other ways to become runnable -----------------------------

my $job = submit($c, 'w', 'cancel:1');
my $waits = look(new_other(), $job, 20);
wait_metric($other->{socket}, 'parked_requests', 1);
$t0 = time;
is($c->request(POST => "/v1/jobs/$job/cancel", { token => $token{operator},
    body => { requested_by => 'ops', reason => 'test' } })->{status}, 202,
    'a cancel here');
is($waits->response(10)->{json}{status}, 'canceled', 'ends a wait there');
cmp_ok(time - $t0, '<', 0.5, 'at once');

submit($c, 'w', 'release:1');
my $lease = claim($c, 5, 'w')->response(10)->{json}{leases}[0];
my $parked = claim(new_other(), 20, 'w');
wait_metric($other->{socket}, 'parked_requests', 1);
$t0 = time;
owner($c, 'release', $lease);
my $res = $parked->response(10);
is($res->{json}{leases}[0]{work_key}, 'release:1',
    'what is released here is claimed there');
cmp_ok(time - $t0, '<', 0.5, 'at once');
owner($o, 'complete', $res->{json}{leases}[0]);

# woken for one kind, it takes another: its hint is passed on
my $both = claim(Interlock::FastCGI->of_instance($i), 20, 'w', 'x');
$parked = claim(new_other(), 20, 'w');
wait_metric($_, 'parked_requests', 1) for $mine, $other->{socket};
$i->psql(q{select * from interlock.submit(array[(select id from
    interlock.tenants where name = 'demo')], array[gen_random_uuid()],
    array['api'], array[null::text], array['\x00'::bytea], array['reject'],
    array['x'], array['pass:x'], array[null::bigint], array['{}'::bytea],
    array['application/json'], array[null::text], array[null::text],
    array[null::int], array[null::timestamptz], array[null::timestamptz],
    array[false], array[null::text], array[null::text], false)});
submit($c, 'w', 'pass:w');
$t0 = time;
$res = $both->response(5);
is($res->{json}{leases}[0]{work_key}, 'pass:x', 'one takes the older job');
owner($c, 'complete', $res->{json}{leases}[0]);
$res = $parked->response(5);
is($res->{json}{leases}[0]{work_key}, 'pass:w',
    'and what it was woken for goes to the other');
cmp_ok(time - $t0, '<', 0.5, 'at once');
owner($o, 'complete', $res->{json}{leases}[0]);

# --- nonsense on the channel -----------------------------------------------

for my $text ('', 'x', '0123456789abcdef', '0123456789abcdef ',
    '0123456789abcdef k:', '0123456789abcdef k:1:w', '0123456789abcdef '
    . 'k:-1:w:1', '0123456789abcdef k:99999999999:w:1', '0123456789abcdef '
    . 'k:1:W:1 j:x j:AAAA j: what ever:1', '0123456789abcdef '
    . 'k:1:w:999999999', '0123456789abcdef ' . 'j' x 7900)
{
    $i->psql("select pg_notify('interlock_wake', '$text')");
}
($times[0]) = rounds(3, 'nonsense');
cmp_ok(quantile($times[0], 0.5), '<', 100, 'nonsense does no harm');

# --- the connection is cut -------------------------------------------------

sub listeners {
    return $i->psql("select count(*) from pg_stat_activity "
        . "where application_name = 'interlockd notify'");
}

is(listeners(), 2, 'one connection each');
my $found = 0;
for my $round (1 .. 5) {
    my $parked = claim(new_other(), 20, 'w');
    my $looked = look(new_other(), submit($c, 'x', "watched:$round"), 20);
    wait_metric($other->{socket}, 'parked_requests', 2);
    $i->psql("select pg_terminate_backend(pid) from pg_stat_activity "
        . "where application_name = 'interlockd notify'");
    my $t0 = time;
    my $job = submit($c, 'w', "cut:$round");
    my $lease = claim(Interlock::FastCGI->of_instance($i), 5, 'x')
        ->response(5)->{json}{leases}[0];
    owner($c, 'complete', $lease);
    my $res = $parked->response(10);
    $found++ if ($res->{json}{leases}[0]{job_id} // '') eq $job;
    $res = $looked->response(10);
    $found++ if $res->{json}{status} eq 'succeeded';
    cmp_ok(time - $t0, '<', 2.5, 'what a break hides is found soon');
    wait_metric($_, 'notify_up', 1) for $mine, $other->{socket};
}
is($found, 10, 'nothing was missed while the connections were cut');
is(listeners(), 2, 'and they are back');
@times = rounds(20, 'after');
cmp_ok(quantile($times[0], 0.5), '<', 50, 'as quick as before');

# --- the database is restarted ---------------------------------------------

my $old = $i->pid('postgres');
$parked = claim(new_other(), 30, 'w');
wait_metric($other->{socket}, 'parked_requests', 1);
kill 'INT', $old;
$i->wait_for(sub {
    my $new = eval { $i->pid('postgres') };
    $new && $new != $old
        && Interlock::FastCGI->once($i, GET => '/readyz')->{status} == 200;
}, 30, 'PostgreSQL to come back');
$i->wait_for(sub { $c->request(POST => '/v1/jobs', { token => $token{submit},
    headers => { 'idempotency-key' => 'restart' },
    body => { kind => 'w', work_key => 'restart:1' } })->{status} == 202 }, 20,
    'a submission');
$res = $parked->response(10);
is($res->{json}{leases}[0]{work_key}, 'restart:1',
    'a claim that waited through a restart of the database gets work');
wait_metric($_, 'notify_up', 1) for $mine, $other->{socket};
@times = rounds(10, 'restarted');
cmp_ok(quantile($times[0], 0.5), '<', 50, 'as quick as before the restart');

# --- one of them ends ------------------------------------------------------

kill 'TERM', $other->{pid};
waitpid $other->{pid}, 0;
is($?, 0, 'the other one ends cleanly');
$i->wait_for(sub { metric($mine, 'notify_peers') == 0 }, 30,
    'the peer to be forgotten');
my $sent = metric($mine, 'notify_messages_total{direction="sent"}');
submit($c, 'w', "alone:$_") for 1 .. 50;
cmp_ok(metric($mine, 'notify_messages_total{direction="sent"}') - $sent, '<',
    10, 'one alone tells nobody');

# --- a connection that cannot listen ---------------------------------------

$other = $i->another_backend('deaf', notify_dsn => 'host=/nonexistent '
    . 'user=nobody password=hunter2');
is(metric($other->{socket}, 'notify_up'), 0, 'one that cannot connect is '
    . 'not up');
$parked = claim(new_other(), 20, 'x');
wait_metric($other->{socket}, 'parked_requests', 1);
$t0 = time;
submit($c, 'x', 'slow:1');
is($parked->response(10)->{json}{leases}[0]{work_key}, 'slow:1',
    'it finds work by its poll all the same');
cmp_ok(time - $t0, '<', 2.2, 'within about a second');
like($i->log('deaf'), qr/notify: /, 'and its log says so');
unlike($i->log('deaf'), qr/hunter2/, 'without the password');
my $said = () = $i->log('deaf') =~ /notify: /g;
is($said, 1, 'once');

$i->check_sql;
done_testing();
