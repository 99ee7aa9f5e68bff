#!/usr/bin/perl

# The database is away for longer than a lease.  An owner that finished
# meanwhile and repeats its complete is heard: its attempt is not recovered
# before it had the time.  A dead owner's key is free a little later, and a
# lease that ends after the start is recovered as ever.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp qw(tempdir);
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::Test;

my $i = Interlock::Test->instance;
my $tmp = tempdir(CLEANUP => 1);

sub kind {
    my ($name, $lease) = @_;

    my $r = $i->http(PUT => "/v1/kinds/$name", { token => 'operator',
        body => { overlap => 'skip', lease_seconds => $lease,
            max_attempts => 5 } });
    is($r->{status}, 200, "kind $name") or diag $r->{body};
}

sub submit {
    my ($kind, $key) = @_;

    my $r = $i->http(POST => '/v1/jobs', { token => 'submit',
        body => { kind => $kind, work_key => $key } });
    is($r->{status}, 202, "$key is submitted") or diag $r->{body};
    return $r->{json}{job_id};
}

sub claim {
    my ($kind) = @_;

    my $r = $i->http(POST => '/v1/leases', { token => 'worker', timeout => 30,
        body => { worker => 'w', kinds => [$kind], wait => 5 } });
    return $r->{json}{leases}[0] // die "no lease: $r->{body}";
}

sub complete {
    my ($lease) = @_;

    return $i->http(POST => '/v1/lease/complete', { timeout => 20,
        body => { result => { fence => $lease->{fence} } },
        headers => { Authorization => "Bearer $lease->{owner_token}" } });
}

sub job { $i->http(GET => "/v1/jobs/$_[0]", { token => 'auditor' })->{json} }
sub slurp { Interlock::Test::slurp($_[0]) // '' }

kind('short', 2);
kind('worked', 2);
kind('quick', 1);
my ($mine, $dead) = (submit('short', 'away:mine'), submit('short', 'away:dead'));
my @lease = map { claim('short') } 1 .. 2;

# one whose worker is `interlock work`: its command ends during the outage
my $third = submit('worked', 'away:worked');
my $worker = $i->spawn_cli({ token => 'worker', out => "$tmp/out" }, 'work',
    '--kind', 'worked', '--once', '--', 'sh', '-c',
    "echo \$\$ >$tmp/pid; while [ ! -e $tmp/go ]; do sleep 0.05; done;"
    . ' echo 3');
$i->wait_for(sub { -s "$tmp/pid" }, 10, 'the worker to start');

# --- the server is gone -----------------------------------------------------

my $keeper = $i->pid('keeper.postgres');
my $old = $i->pid('postgres');
kill 'STOP', $keeper or die "kill $keeper: $!";
kill 'QUIT', $old or die "kill $old: $!";
my $gone = time;
Interlock::Test::spew("$tmp/go", '');
$i->wait_for(sub { complete($lease[0])->{status} == 503 }, 10,
    'the outage to be felt');
# (the leases of 2 s are over, and a second more)
$i->wait_for(sub { time - $gone > 3 && complete($lease[0])->{status} == 503 },
    10, 'the leases to be over');

kill 'CONT', $keeper;

# --- and back: the owner repeats its call until it is answered --------------

my ($r, %said);
$i->wait_for(sub {
    $r = complete($lease[0]);
    $said{ $r->{status} }++;
    return $r->{status} != 503;
}, 30, 'an answer');
is($r->{status}, 200, 'the owner that finished meanwhile is heard')
    or diag $r->{body};
is(job($mine)->{status}, 'succeeded', 'its job succeeded');
is(job($mine)->{attempt}, 1, 'at the first attempt');

# a lease that ends after the start is recovered as ever
my $later = submit('quick', 'away:later');
claim('quick');
$i->wait_for(sub { job($later)->{status} eq 'queued' }, 20, 'its recovery');

is(waitpid($worker, 0), $worker, 'the worker ends');
is($? >> 8, 0, 'and was heard') or diag slurp("$tmp/out");
is(job($third)->{status}, 'succeeded', 'so its job succeeded');
is(job($third)->{attempt}, 1, 'at the first attempt');

$i->wait_for(sub { job($dead)->{status} eq 'queued' }, 20,
    'the dead owner\'s recovery');
my ($dead_after, $later_late) = split /\|/, $i->psql(
    "select round(extract(epoch from d.ended_at - s.seen_at), 2),"
    . " round(extract(epoch from l.ended_at - l.granted_at), 2)"
    . " from interlock.attempts d, interlock.attempts l,"
    . " interlock.server_seen s"
    . " where d.job_id = '$dead' and l.job_id = '$later'");
cmp_ok($dead_after, '>=', 5, 'the dead owner was left alone for 5 s');
cmp_ok($dead_after, '<', 9,
    "and recovered then, $dead_after s after the server was seen");
cmp_ok($later_late, '<', 4, 'one that ended after that is recovered a sweep'
    . " after its end: $later_late s after the claim");
is(complete($lease[1])->{status}, 409, 'who comes later than that is refused');

$i->check_sql;
done_testing;
