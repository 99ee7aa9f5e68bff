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

# interlock audit verify says the same, and finds what was done to it.
sub verify {
    my (@args) = @_;

    return $i->cli('audit', 'verify', '--tenant', 'demo', '--dsn-file', "$i->{dir}/dsn",
        '--json', @args);
}

# tampered(what, sql, undo): what verify says after it
sub tampered {
    my ($sql, $undo) = @_;

    $i->psql("set session_replication_role = replica; $sql");
    my $found = verify();
    $i->psql("set session_replication_role = replica; $undo");
    is($found->{code}, 1, "found: $sql") or diag($found->{err});
    return join ' ', map { $found->{json}{$_} } qw(trouble link history_id);
}

my ($links, $end) = (scalar(@rows), $rows[-1][2]);
my $good = verify();
is($good->{code}, 0, 'verify: all is well') or diag($good->{err});
is_deeply($good->{json}, { tenant => 'demo', links => $links, unsealed => 0, hash => $end,
    trouble => undef }, 'and how many');
like($i->cli('audit', 'verify', '--tenant', 'demo', '--dsn-file', "$i->{dir}/dsn")->{out},
    qr/^demo: $links rows as they were written, 0 not sealed yet\n$links:$end\n$/, 'in words');

my ($n, $id) = ($rows[5][0], $rows[5][4]);
my $history = "update interlock.effects_history set";
is(tampered("$history detail = coalesce(detail, '') || '!' where id = $id",
    "$history detail = nullif(rtrim(detail, '!'), '') where id = $id"),
    "a row was changed $n $id", 'a changed row');
for ([ $n, $id, 'a row that is not there' ], [ $links, $rows[-1][4], 'the last one' ]) {
    my ($link, $row, $what) = @$_;
    is(tampered("$history tenant = -tenant where id = $row",
        "$history tenant = -tenant where id = $row"), "a row was removed $link $row", $what);
}
my $copy = 'insert into interlock.effects_history overriding system value select (h).* from '
    . "(select jsonb_populate_record(x, '{\"id\":-1}') h from interlock.effects_history x "
    . "where id = $id) y";
is(tampered($copy, 'delete from interlock.effects_history where id = -1'),
    'a row was put in 0 -1', 'a row between others');
my $chain = 'update interlock.effects_chain set';
for ([ $n, 'a link' ], [ $links, 'the last one' ]) {
    my ($link, $what) = @$_;
    is(tampered("$chain tenant = -tenant where n = $link",
        "$chain tenant = -tenant where n = $link"), "a link is missing $link 0", $what);
}
is(tampered("$chain hash = decode(repeat('ab', 32), 'hex') where n = $n",
    "$chain hash = decode('$rows[5][2]', 'hex') where n = $n"),
    "a row was changed $n $id", 'another hash');
is(verify()->{code}, 0, 'all is well again');

# A chain that was made anew fits; but not what was written down.
is(verify('--known', "$n:$rows[5][2]")->{code}, 0, 'a known link');
my $other = verify('--known', "$n:" . 'ab' x 32);
is($other->{code}, 1, 'another one');
is($other->{json}{trouble}, 'the link is not the one that was known', 'is said so');
is(verify('--known', ($links + 1) . ":$end")->{json}{trouble},
    'the link that was known is not there', 'one that is not there');
is(verify('--known', $_)->{code}, 64, "$_ is none")
    for 'x', '1:', "0:$end", "1:${end}0", ":$end";
is($i->cli('audit', 'verify', '--tenant', 'nobody', '--dsn-file', "$i->{dir}/dsn")->{code}, 66,
    'no such tenant');

$i->check_sql;

done_testing;
