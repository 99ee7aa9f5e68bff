#!/usr/bin/perl

# The history of effects becomes a chain: every row is sealed within seconds,
# once, by whichever interlockd, and each hash is BLAKE2b-256 of what it should
# be, as another program computes it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use IPC::Open2;
use Test::More;

use Interlock::Test;

my $i = Interlock::Test->instance(conf => 'recover_interval = 50ms');
$i->another_backend("other$_", recover_interval => '50ms') for 1, 2;

my ($code, $out) = Interlock::Test::run([ 'b2sum', '-l', '256' ], stdin => '');
plan skip_all => 'b2sum is missing' if $code || $out !~ /^0e5751c026e543b2/;

# Jobs with some effects each, confirmed or not.
my $res = $i->http(PUT => '/v1/kinds/k', { token => 'operator',
    body => { overlap => 'allow' } });
is($res->{status}, 200, 'a kind');
my $count = 0;

sub effects {
    my ($jobs) = @_;

    for my $n (1 .. $jobs) {
        $i->http(POST => '/v1/jobs', { token => 'submit',
            body => { kind => 'k', work_key => "k:$n" } });
    }
    my $claimed = $i->http(POST => '/v1/leases', { token => 'worker',
        body => { worker => 'w', kinds => ['k'], max => $jobs, wait => 5 } });
    for my $lease (@{ $claimed->{json}{leases} }) {
        my $as = { Authorization => "Bearer $lease->{owner_token}" };
        for my $name (qw(mail charge)) {
            my $begun = $i->http(POST => '/v1/effects', { headers => $as,
                body => { name => $name, kind => 'sample-payment' } })->{json};
            $i->http(POST => "/v1/effects/$begun->{effect_id}/outcome", { headers => $as,
                body => { send_id => $begun->{send_id}, state => 'confirmed',
                    detail => "$name\x{e9}" } }) if $name eq 'charge';
            $count++;
        }
        $i->http(POST => '/v1/lease/complete', { headers => $as });
    }
}

sub one { return $i->psql($_[0]) }

my $unsealed = 'select count(*) from interlock.effects_history h where not exists '
    . '(select from interlock.effects_chain c where c.tenant = h.tenant '
    . 'and c.history_id = h.id)';

for my $round (1 .. 3) {
    effects(10);
    $i->wait_for(sub { one($unsealed) == 0 }, 15, 'every row to be sealed');
}
cmp_ok($count, '>=', 60, 'effects began');

my @rows = $i->sql("select c.n, encode(c.prev, 'hex'), encode(c.hash, 'hex'),
    encode(c.canonical, 'hex'), c.history_id
    from interlock.effects_chain((select id from interlock.tenants
        where name = 'demo'), 0, 100000) c order by c.n");
is(scalar(@rows), one('select count(*) from interlock.effects_history'),
    'as many links as rows');
cmp_ok(scalar(@rows), '>', $count, 'and more than effects');

# b2sum of prev, n as 8 bytes big endian, canonical bytes
my ($prev, $bad, %seen) = ('0' x 64, 0);
for my $k (0 .. $#rows) {
    my ($n, $before, $hash, $canonical, $id) = @{ $rows[$k] };
    my (undef, $sum) = Interlock::Test::run([ 'b2sum', '-l', '256' ],
        stdin => pack('H*', $before) . pack('Q>', $n) . pack('H*', $canonical));
    $bad++ unless $n == $k + 1 && $before eq $prev && $sum =~ /^\Q$hash\E /
        && !$seen{$id}++;
    $prev = $hash;
}
is($bad, 0, 'every hash is that of b2sum, over the one before');

# A row that is changed afterwards shows.
$i->psql("set session_replication_role = replica;
    update interlock.effects_history set detail = 'nothing' where id = $rows[5][4]");
my ($changed) = $i->sql("select encode(c.canonical, 'hex')
    from interlock.effects_chain((select id from interlock.tenants
        where name = 'demo'), 5, 1) c");
isnt($changed->[0], $rows[5][3], 'a changed row is another text');

$i->check_sql;

done_testing;
