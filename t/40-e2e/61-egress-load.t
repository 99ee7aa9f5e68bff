# Egress at 64 connections: begins and outcomes share transactions, so that a
# request costs at most two calls to the database.  And a thousand who begin
# one effect at once: one send.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP ();
use Test::More;

use Interlock::Load qw(run_clients percentile);
use Interlock::Provider;
use Interlock::Test;

use constant { CLIENTS => 64, EACH => 20, SAME => 1000 };

my $json = JSON::PP->new->canonical->utf8;
my ($i, $p) = Interlock::Provider->beside;

# leases(n, kind, key): of jobs with that key, or one of their own
sub leases {
    my ($n, $kind, $key) = @_;

    my @jobs = map { { kind => $kind, work_key => $key // "load:$_" } } 1 .. $n;
    while (my @some = splice @jobs, 0, 500) {
        my $res = $i->http(POST => '/v1/jobs:batch', { token => 'submit',
            body => { jobs => \@some } });
        die "submit: $res->{status}" unless $res->{status} == 200;
    }
    my @leases;
    while (@leases < $n) {
        my $res = $i->http(POST => '/v1/leases', { token => 'worker', body =>
            { worker => 'w', kinds => [$kind], max => 100, wait => 10 } });
        my @some = @{ $res->{json}{leases} } or last;
        push @leases, @some;
    }
    return @leases;
}

sub request {
    my ($l, $name, $reference) = @_;

    return { id => $reference, path => '/out/sample/charges', headers => {
        'Interlock-Owner-Token' => $l->{owner_token}, 'Interlock-Effect' =>
        $name, 'Content-Type' => 'application/json' },
        body => $json->encode({ reference => $reference }) };
}

# Calls of the database since the start, by lane
sub calls {
    my $m = $i->metrics;
    return map { $m->{qq(interlock_batch_size_count{lane="$_"})} // 0 }
        qw(begin outcome read);
}

my @lease = leases(CLIENTS, 'free');
is(scalar @lease, CLIENTS, CLIENTS . ' owners');

my @requests = map { my $n = $_; map { request($lease[$_], "charge $n",
    "r$n-$_") } 0 .. CLIENTS - 1 } 1 .. EACH;
my @before = calls();
my $results = run_clients(clients => CLIENTS, url => $i->url,
    requests => \@requests);
my @after = calls();

is(scalar(grep { $_->{status} == 200 && $_->{headers}{'interlock-effect-state'}
    eq 'confirmed' } @$results), @requests, @requests . ' effects confirmed');
my %done;
$done{ $_->{reference} }++ for $p->record;
is(scalar(grep { ($done{ $_->{id} } // 0) != 1 } @requests), 0,
    '... each done once');
my ($begins, $outcomes, $reads) = map { $after[$_] - $before[$_] } 0 .. 2;
my $calls = $begins + $outcomes + $reads;
cmp_ok($calls, '<=', 2 * @requests, 'at most two calls a request');
cmp_ok($begins, '<', @requests, 'begins share transactions');
cmp_ok($outcomes, '<', @requests, '... and so do outcomes');
note(sprintf '%d connections: %.2f calls of the database a request (%d begins'
    . ' in %d, %d outcomes in %d), median %.1f ms, p99 %.1f ms', CLIENTS,
    $calls / @requests, scalar @requests, $begins, scalar @requests,
    $outcomes, map { percentile($_, map { $_->{ms} } @$results) } 0.5, 0.99);

# one effect of one work, a thousand owners at once
my $put = $i->http(PUT => '/v1/kinds/crowd', { token => 'operator', body => {
    overlap => 'allow', effect_scope => 'work', lease_seconds => 120 } });
is($put->{status}, 200, 'a kind whose effects are the work\'s');
my @crowd = leases(SAME, 'crowd', 'crowd:1');
is(scalar @crowd, SAME, SAME . ' owners of one work');
my $same = run_clients(clients => CLIENTS, url => $i->url, requests =>
    [ map { { %{ request($crowd[$_], 'the one', 'one') }, id => $_ } }
    0 .. SAME - 1 ]);
my %status;
$status{ $_->{status} . ($_->{headers}{'interlock-effect-replayed'}
    ? ' replayed' : '') }++ for @$same;
is($p->done('one'), 1, SAME . ' at once: done once');
is($status{200}, 1, '... one was sent');
is(join(' ', grep { !/^(?:200|200 replayed|409)$/ } keys %status), '',
    '... the others waited or got its answer');
is($i->psql("select count(*) from interlock.sends s join interlock.effects e"
    . " on e.tenant = s.tenant and e.id = s.effect_id"
    . " where e.name = 'the one'"), 1, '... one send');

$i->check_sql;
done_testing();
