#!/usr/bin/perl

# 10,000 leases end at once.  They are recovered in bounded passes while
# claims go on; one row that raises an error stops nobody, and is recovered
# when it does so no more.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp qw(tempdir);
use List::Util qw(max min);
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::Test;

my $jobs = $ENV{JOBS_EXPIRED} // 10_000;
my $pass = 200;                     # IL_RECOVER_LIMIT of fcgi/sweep.c

my $tmp = tempdir(CLEANUP => 1);
my $i = Interlock::Test->instance;

for my $kind (qw(many quick)) {
    my $res = $i->http(PUT => "/v1/kinds/$kind", { token => 'operator',
        body => { overlap => 'buffer_all', lease_seconds => 3600,
            max_attempts => 5, max_queued => 100_000 } });
    is($res->{status}, 200, "kind $kind") or diag $res->{body};
}

sub post {
    my ($path, $token, $body, $headers) = @_;

    my $res = $i->http(POST => $path, { body => $body, timeout => 60,
        token => $token, headers => $headers });
    die "$path: $res->{status} $res->{body}" if $res->{status} >= 300;
    return $res->{json};
}

sub claim {
    my ($kind, $max, $wait) = @_;

    return @{ post('/v1/leases', 'worker', { worker => 'w',
        kinds => [$kind], max => $max, wait => $wait // 5 })->{leases} };
}

sub complete {
    my ($lease) = @_;

    post('/v1/lease/complete', undef, {},
        { Authorization => "Bearer $lease->{owner_token}" });
}

# --- 10,000 running jobs ----------------------------------------------------

for my $from (map { 500 * $_ } 0 .. $jobs / 500 - 1) {
    post('/v1/jobs:batch', 'submit', { jobs => [ map { {
        kind => 'many', work_key => "many:$_" } } $from .. $from + 499 ] });
}
my $held = 0;
my $end = time + 120;
$held += claim('many', 100) while $held < $jobs && time < $end;
is($held, $jobs, "$jobs jobs run");
my ($poisoned) = $i->psql("select job_id from interlock.leases"
    . " where work_key = 'many:77'");

# --- somebody who submits, claims and completes all the time ----------------

my $sampler = fork() // die "fork: $!";
if (!$sampler) {
    open my $out, '>', "$tmp/samples" or POSIX::_exit(1);
    $out->autoflush(1);
    my $n = 0;
    while (!-e "$tmp/stop") {
        eval {
            post('/v1/jobs', 'submit', { kind => 'quick',
                work_key => 'quick:' . ++$n });
            my $t0 = time;
            my ($lease) = claim('quick', 1);
            print $out join(' ', $t0, time - $t0, $lease ? 1 : 0), "\n";
            complete($lease);
            1;
        } or print $out time, " 60 0\n";
    }
    POSIX::_exit(0);
}
END { if ($sampler) { local $?; kill 'KILL', $sampler;
    waitpid($sampler, 0) } }

sub samples {
    my ($from, $to) = @_;

    return map { [ split ] } grep { /^([\d.]+) / && $1 >= $from && $1 < $to }
        split /^/, Interlock::Test::slurp("$tmp/samples") // '';
}

my $start = time;
$i->wait_for(sub { samples($start, time) >= 100 }, 60,
    '100 claims before the leases end');

# --- they end ---------------------------------------------------------------

$i->psql(q{
create function public.poison() returns trigger language plpgsql as $$
begin
    if old.work_key = 'many:77' then
        raise exception 'poisoned';
    end if;
    return old;
end $$;
create trigger poison before delete on interlock.leases
    for each row execute function public.poison();
});
$i->expect_log(qr/poisoned/);

# An hour passes for all of them at once.
my $expired = time;
$i->psql("update interlock.leases set expires_at = clock_timestamp()"
    . " where kind = 'many'");
$i->wait_for(sub { $i->psql("select count(*) from interlock.leases"
    . " where kind = 'many'") <= 1 }, 240, 'all but one to be recovered');
my $over = time;

is($i->psql("select count(*) || ' ' || count(distinct job_id) from"
    . " interlock.attempts where kind = 'many' and call = 'lost'"),
    $jobs - 1 . ' ' . ($jobs - 1), sprintf('all others were recovered once,'
    . ' in %.1f s', $over - $expired));
is($i->psql("select status || ' ' || attempts from interlock.jobs"
    . " where id = '$poisoned'"), 'running 1', 'the poisoned one was not');

# The rows that one transaction (or its one subtransaction) wrote.
my $largest = $i->psql("select max(n) from (select count(*) as n from"
    . " interlock.attempts where kind = 'many' group by xmin::text) x");
cmp_ok($largest, '<=', $pass, "no pass recovered more than $pass: $largest");
cmp_ok($largest, '>', 1, 'and a pass is not one row');

my @before = sort { $a <=> $b } map { $_->[1] } samples($start, $expired);
my @during = sort { $a <=> $b } map { $_->[1] } samples($expired, $over);
is(scalar(grep { !$_->[2] } samples($start, time)), 0,
    'each claim of the time got its job');
cmp_ok(scalar @during, '>=', 5, @during . ' claims went on meanwhile');

sub middle { my @x = @_; return $x[ $#x / 2 ] // 0 }
my $ratio = middle(@during) / max(middle(@before), 0.001);
cmp_ok($ratio, '<', 15, sprintf('a claim took %.1f ms, before: %.1f ms,'
    . ' ratio %.1f', 1000 * middle(@during), 1000 * middle(@before),
    $ratio));
cmp_ok($during[-1] // 99, '<', 5, sprintf('the longest %.0f ms,'
    . ' before: %.0f ms', 1000 * ($during[-1] // 0), 1000 * $before[-1]));

# --- the poisoned one -------------------------------------------------------

my $m = $i->metrics;
my ($shown) = grep { /^interlock_recovery_troubles\b/ } keys %$m;
is($shown && $m->{$shown}, 1, 'it is shown in the metrics')
    or diag join "\n", grep { /recover/ } keys %$m;
my $recovered = 0;
$recovered += $m->{$_} for grep { /^interlock_stale_recovery_total\b.*many/ }
    keys %$m;
is($recovered, $jobs - 1, 'beside those that were recovered');
my $tries = $i->psql('select max(times) from interlock.recovery_troubles');
$i->wait_for(sub { $i->psql('select max(times) from'
    . ' interlock.recovery_troubles') > $tries }, 60, 'another try of it');
pass('it is tried again');

$i->psql('drop trigger poison on interlock.leases');
$i->wait_for(sub { !$i->psql("select count(*) from interlock.leases"
    . " where kind = 'many'") }, 90, 'the poisoned one to be recovered');
is($i->psql("select status || ' ' || attempts from interlock.jobs"
    . " where id = '$poisoned'"), 'queued 1',
    'recovered once it raises no more');
is($i->psql('select count(*) from interlock.recovery_troubles'), 0,
    'and not in trouble any more');

Interlock::Test::spew("$tmp/stop", '');
waitpid($sampler, 0);
$sampler = undef;

# They run again.
my @again = claim('many', 100);
is(scalar @again, 100, 'the jobs are there to be claimed');
is($again[0]{attempt}, 2, 'for a second attempt');
complete($_) for @again[ 0 .. 9 ];

$i->check_sql;

done_testing();
