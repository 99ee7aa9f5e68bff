#!/usr/bin/perl

# Workers were away for an hour and 10,000 jobs are queued.  When they are
# back, what stands for the outside sees at most as many at once as the limit
# has capacity, and at most its start rate in a second; the limit is changed
# while they run.  What expired and what was merged meanwhile says so.
#
# (The hour is made by putting the times of what is queued back by one; of the
# 10,000 as many run as the rate lets in some seconds.)

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::FastCGI;
use Interlock::Test;

my $i = Interlock::Test->instance;
my ($jobs, $rate, $workers) = (10_000, 12, 24);

sub put {
    my ($path, $body) = @_;
    my $r = $i->http(PUT => $path, { token => 'operator', body => $body });
    is($r->{status}, 200, "(PUT $path)") or diag $r->{body};
}

put('/v1/limits/outside', { capacity => 4, start_rate => $rate });
put('/v1/kinds/fresh', { overlap => 'buffer_one', limits => ['outside'] });
put('/v1/kinds/stale', { overlap => 'buffer_one', limits => ['outside'],
    max_wait => 1800 });

# --- 10,000 while nobody is there ------------------------------------------

# 2,000 keys, five requests each: the first waits to run, the second behind
# it, and each later one takes the place of the one before.
my $keys = $jobs / 5;
my @rows = map { my $n = $_; map { { kind => $n % 4 ? 'fresh' : 'stale',
    work_key => "away:$n", payload => $_ } } 1 .. 5 } 1 .. $keys;
my $t0 = time;
my %decision;
while (my @some = splice @rows, 0, 500) {
    my $r = $i->http(POST => '/v1/jobs:batch', { token => 'submit',
        body => { jobs => \@some } });
    $decision{ $_->{decision} // $_->{type} }++
        for @{ $r->{json}{items} };
}
diag(sprintf '%d jobs in batches of 500: %.1f s', $jobs, time - $t0);
is_deeply(\%decision, { accepted => $keys, buffered => 4 * $keys },
    "$jobs submissions, each with its decision");
is($i->psql("select count(*) from interlock.jobs where status = "
    . "'superseded' and superseded_by is not null"), 3 * $keys,
    'three of each five gave way to the next');

$i->psql("update interlock.jobs set created_at = created_at - interval "
    . "'1 hour', run_at = run_at - interval '1 hour', order_key = order_key "
    . "- interval '1 hour', expire_at = expire_at - interval '1 hour', "
    . 'finished_at = finished_at - interval $$1 hour$$ '
    . "where kind in ('fresh', 'stale')");
my $stale = 2 * int($keys / 4);
$i->wait_for(sub { $i->psql("select count(*) from interlock.jobs where "
    . "status = 'expired'") == $stale }, 30, 'what waited for too long');
is($i->psql("select count(*) from interlock.jobs where status = 'expired' "
    . "and error like 'waited longer than max_wait%' and finished_at is not "
    . 'null'), $stale, "$stale expired, each with its reason");
is($i->psql("select count(*) from interlock.jobs where kind = 'fresh' and "
    . "status = 'queued'"), 2 * ($keys - $keys / 4), 'no other one did');
is($i->metrics->{'interlock_jobs_expired_total{kind="stale"}'}, $stale,
    'they are counted');

# --- the outside -----------------------------------------------------------

# One connection is one job's call: it begins with the connection and ends
# with it.  Its log has the time and what is under way.
my $outside = IO::Socket::INET->new(Listen => 128, LocalAddr => '127.0.0.1',
    ReuseAddr => 1) or die "listen: $!";
my $log = $i->dir . '/outside';
my $outside_pid = fork() // die "fork: $!";
if (!$outside_pid) {
    my $end = 0;
    $SIG{TERM} = sub { $end = 1 };
    my $select = IO::Select->new($outside);
    my ($n, @log) = (0);
    while (!$end) {
        for my $sock ($select->can_read(0.2)) {
            if ($sock == $outside) {
                $select->add($outside->accept);
                push @log, [ time, ++$n, 1 ];
            } elsif (!sysread $sock, my $x, 64) {
                $select->remove($sock);
                close $sock;
                push @log, [ time, --$n, 0 ];
            }
        }
    }
    Interlock::Test::spew($log, encode_json(\@log));
    POSIX::_exit(0);
}

# --- they are back ---------------------------------------------------------

my $token = $i->token('worker');
sub worker {
    my ($n) = @_;
    my $pid = fork() // die "fork: $!";
    return $pid if $pid;

    my $end = 0;
    $SIG{TERM} = sub { $end = 1 };
    my $c = Interlock::FastCGI->of_instance($i);
    while (!$end) {
        my $r = $c->request(POST => '/v1/leases', { token => $token,
            body => { worker => "w$n", kinds => [ 'fresh', 'stale' ],
                wait => 2 } });
        for my $l (@{ $r->{json}{leases} // [] }) {
            my $sock = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                PeerPort => $outside->sockport) or die "connect: $!";
            # first a quarter of a second, so that some overlap
            sleep(-e $i->dir . '/hold' ? 0.05 : 0.25);
            # it has ended there before it ends here
            close $sock;
            sleep 0.01;
            $c->request(POST => '/v1/lease/complete',
                { token => $l->{owner_token} });
        }
    }
    POSIX::_exit(0);
}

my $began = time;
my @pids = map { worker($_) } 1 .. $workers;
sleep 5;
put('/v1/limits/outside', { capacity => 2, start_rate => undef });
my $changed = time;
Interlock::Test::spew($i->dir . '/hold', 1);
sleep 3;
kill 'TERM', @pids;
waitpid $_, 0 for @pids;
kill 'TERM', $outside_pid;
waitpid $outside_pid, 0;

my @log = @{ decode_json(Interlock::Test::slurp($log)) };
my @starts = map { $_->[0] } grep { $_->[2] } @log;
my @first = grep { $_->[0] < $changed } @log;
# what ran when the limit was lowered may end
my @later = grep { $_->[0] > $changed + 0.5 } @log;
my ($most) = sort { $b <=> $a } map { $_->[1] } @first;
cmp_ok($most, '<=', 4, "at most 4 at once ($most)");
my ($most2) = sort { $b <=> $a } map { $_->[1] } @later;
is($most2, 2, 'then at most 2, and 2 at times');

# most in any second, of a list of times
sub in_a_second {
    my @t = @_;
    my ($best, $from) = (0, 0);
    for my $to (0 .. $#t) {
        $from++ while $t[$to] - $t[$from] >= 1;
        $best = $to - $from + 1 if $to - $from + 1 > $best;
    }
    return $best;
}

my @granted = map { $_->[0] } $i->sql('select extract(epoch from granted_at) '
    . 'from interlock.attempts where granted_at < to_timestamp('
    . ($changed - 0.2) . ') order by granted_at');
my $granted = in_a_second(@granted);
cmp_ok($granted, '<=', $rate, "at most $rate start in any second ($granted)");
# on the way to the outside one may lose some milliseconds and the next none
my $seen = in_a_second(grep { $_ < $changed } @starts);
cmp_ok($seen, '<=', $rate + 1, "nor does the outside see more ($seen)");
my $in = scalar grep { $_ < $changed } @starts;
cmp_ok($in, '>=', 0.7 * $rate * ($changed - $began), sprintf('%d in %.1f s: '
    . 'most of what the rate allows', $in, $changed - $began));
my $more = scalar grep { $_ > $changed + 0.5 } @starts;
cmp_ok($more, '>=', 25, "$more in the last seconds: 2 at once, no rate");

is($i->psql("select string_agg(distinct call || ' ' || status, ',') from "
    . "interlock.attempts where call <> 'unclaim'"), 'complete succeeded',
    'each ended well');
$i->check_sql;
done_testing();
