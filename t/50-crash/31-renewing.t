#!/usr/bin/perl

# A worker that renews runs 20 leases long and is never recovered; one beside
# it that does not renew is recovered within a lease and a sweep.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::Test;

my $leases = 20;
my $i = Interlock::Test->instance;

my $res = $i->http(PUT => '/v1/kinds/short', { token => 'operator',
    body => { overlap => 'buffer_all', lease_seconds => 1,
        max_attempts => 50 } });
is($res->{status}, 200, 'a kind whose leases last a second')
    or diag $res->{body};

sub submit {
    my ($key) = @_;

    my $r = $i->http(POST => '/v1/jobs', { token => 'submit',
        body => { kind => 'short', work_key => $key } });
    is($r->{status}, 202, $key) or diag $r->{body};
}

sub claim {
    my $r = $i->http(POST => '/v1/leases', { token => 'worker',
        body => { worker => 'w', kinds => ['short'], wait => 5 } });
    return $r->{json}{leases}[0];
}

sub call {
    my ($lease, $name, $body) = @_;

    return $i->http(POST => "/v1/lease/$name", { body => $body // {},
        headers => { Authorization => "Bearer $lease->{owner_token}" } });
}

# The worker renews at a third of its lease, as interlock work does.  Should
# this machine be so busy that a renewal comes a whole lease late, the lease
# may rightly end; then it begins anew.
my ($lease, $began, $renewals, $late, $refused);
for my $try (1 .. 3) {
    submit("renewing:$try");
    $lease = claim();
    $began = time;
    ($renewals, $late, $refused) = (0, 0, undef);
    my $last = $began;
    while (time - $began < $leases) {
        sleep(0.33);
        my $r = call($lease, $renewals % 2 ? 'renew' : 'progress',
            $renewals % 2 ? {} : { progress => { done => $renewals } });
        my $gap = time - $last;
        $late = $gap if $gap > $late;
        if ($r->{status} != 200) {
            $refused = "$r->{status} $r->{body}";
            last;
        }
        $last = time;
        $renewals++;
    }
    last if !$refused || $late < 1;
    diag(sprintf 'renewed %.1f s late: once more', $late);
}

is($refused, undef, sprintf('%d renewals in %.1f s, the longest gap %.2f s',
    $renewals, time - $began, $late));
cmp_ok(time - $began, '>=', $leases, "it runs for $leases leases");
is(call($lease, 'complete', { result => { renewals => $renewals } })->{status},
    200, 'and completes');
is($i->psql("select attempts || ' ' || status from interlock.jobs"
    . " where id = '$lease->{job_id}'"), '1 succeeded', 'by its only attempt');
is($i->psql("select call || ' ' || (renewals >= $renewals)"
    . " || ' ' || (ended_at - granted_at >= interval '$leases s')"
    . " from interlock.attempts where job_id = '$lease->{job_id}'"),
    'complete true true', 'which was never recovered');

# The other one.
submit('silent:1');
my $silent = claim();
$i->wait_for(sub { $i->psql("select count(*) from interlock.attempts"
    . " where job_id = '$silent->{job_id}' and call = 'lost'") }, 20,
    'the silent one to be recovered');
my $lasted = $i->psql("select extract(epoch from ended_at - granted_at)"
    . " from interlock.attempts where job_id = '$silent->{job_id}'"
    . " and call = 'lost' order by granted_at limit 1");
cmp_ok($lasted, '>=', 1, 'one that does not renew keeps its lease');
cmp_ok($lasted, '<', 1 + 1 + 3, "and loses it after a sweep: $lasted s");
is(call($silent, 'renew')->{status}, 409, 'it may not renew any more');

$i->check_sql;

done_testing();
