#!/usr/bin/perl

# The chain over the history of effects: what is sealed, in which order, by
# how many sealers; and that a row changed, removed or inserted afterwards is
# seen.  The sealer here makes SHA-256 of the links: which hash it is, is not
# the database's business.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Digest::SHA qw(sha256_hex);
use Test::More;

use Cluster;

my $c = Cluster->new;
my $zero = '00' x 32;

$c->psql(q{
    select t.providers();
    select t.kind('k', '{"overlap":"allow"}');
    select ord from t.submit('k', 'c:1');
    select t.take('a', 'k');
    select t.begin('a', 'one');
    select t.outcome('a', 'one', 'confirmed', 'ref');
    select t.begin('a', 'two', 'mute');
});

my @open = unsealed(100);
is(scalar @open, 3, 'three rows to seal');
is_deeply([map { $_->[1] } @open], [1, 2, 3], 'counted from 1');
is($open[0][3], $zero, 'the first has zeros before it');
is($open[1][3], '', 'that of the others is made on the way');
like(pack('H*', $open[1][4]), qr/^\d+:\d+,\d+:\d+,16:\d{16},36:[0-9a-f-]+,1:2,4:true,7:outcome,8:intended,9:confirmed,/,
    'canonical bytes: each field with its length');
is(scalar unsealed(2), 2, 'no more than asked for');

# A transaction that runs holds back what is after it, not what is before.
my $other = open_tx("select t.begin('a', 'three', 'mute')");
$c->psql(q{select t.outcome('a', 'two', 'failed')});
is(scalar unsealed(100), 3, 'nothing is sealed that another row may precede');
close_tx($other);
@open = unsealed(100);
is(scalar @open, 5, 'then all are');

my @links = links(@open);
is_deeply([seal(@links[0, 1])], ['t', 't'], 'two are sealed');
is_deeply([seal(@links[0, 1])], ['f', 'f'], 'a second sealer loses');
is_deeply([seal($links[3])], ['f'], 'no row is left out');
is_deeply([seal([@{ $links[2] }[0 .. 2], $zero, $links[2][4]])], ['f'],
    'nor another one before it');
is_deeply([seal(@links[2 .. 4])], ['t', 't', 't'], 'the others');
is(scalar unsealed(100), 0, 'all is sealed');
is($c->check, '', 'check.sql finds nothing');
is(state_of('one'), 'confirmed', 'an effect stands');

is($c->psql(q{select effect_kind || ' ' || state || ' ' || n
    from interlock.effect_counts() where n <> 0 order by 1}),
    "keys confirmed 1\nmute failed 1\nmute intended 1",
    'effects are counted by the chain');
$c->psql(q{select t.outcome('a', 'three', 'confirmed')});
is($c->psql(q{select effect_kind || ' ' || state || ' ' || n
    from interlock.effect_counts() where n <> 0 order by 1}),
    "keys confirmed 1\nmute confirmed 1\nmute failed 1",
    'and those that it has not come to');

seal(links(unsealed(100)));
is(verify(), 'sound', 'the chain is sound');

# What somebody with all rights might do to it.
forge(q{update interlock.effects_history set provider_ref = 'else'
        where id = 2}, qr/^changed 2$/, 'a changed row');
forge(q{delete from interlock.effects_history where id = 3},
    qr/^removed 3$/, 'a removed row');
forge(q{insert into interlock.effects_history (tenant, xact, at, effect_id,
            seq, moved, what, to_state, round)
        select tenant, xact, at, effect_id, seq, false, 'evidence', to_state,
            round from interlock.effects_history where id = 2},
    qr/^inserted \d+$/, 'an inserted row');
forge(q{insert into interlock.effects_history (tenant, xact, at, effect_id,
            seq, moved, what, to_state, round)
        select tenant, (pg_snapshot_xmax(pg_current_snapshot())::text::bigint
            + 1000000)::text::xid8, at, effect_id, seq, false, 'evidence',
            to_state, round from interlock.effects_history where id = 2},
    qr/^inserted \d+$/, 'one of a transaction that has not been yet');
forge(q{update interlock.effects_history
        set xact = (xact::text::bigint - 1)::text::xid8 where id = 2},
    qr/^changed 2$/, 'another transaction');
forge(q{delete from interlock.effects_chain where n = 2},
    qr/^changed/, 'a link taken out');
forge(q{delete from interlock.effects_chain where n = 6},
    qr/^ends at 5, not 6$/, 'the last link taken off');

$c->psql(q{select t.begin('a', 'four')});
is(verify(), 'sound, 1 unsealed', 'what is new is said to be so');

done_testing;

sub unsealed {
    my ($limit) = @_;
    return map { [split /\|/, $_, -1] } split /\n/, $c->psql(
        "select tenant, n, history_id, encode(prev, 'hex'),
            encode(canonical, 'hex')
         from interlock.effects_unsealed($limit)");
}

sub link_of {
    my ($prev, $n, $canonical) = @_;
    return sha256_hex(pack('H*', $prev) . pack('Q>', $n)
        . pack('H*', $canonical));
}

# [tenant, n, history, prev, hash] of each
sub links {
    my (@rows) = @_;
    my $hash;
    return map {
        my ($tenant, $n, $history, $prev, $canonical) = @$_;
        $prev = $hash if $prev eq '';
        $hash = link_of($prev, $n, $canonical);
        [$tenant, $n, $history, $prev, $hash];
    } @rows;
}

sub seal {
    my (@l) = @_;
    my @col = map { my $i = $_; join ',', map { $_->[$i] } @l } 0 .. 2;
    my @hex = map { my $i = $_; join ',', map { "'\\x$_->[$i]'" } @l } 3, 4;
    return split /\n/, $c->psql("select ok from interlock.effects_seal(
        array[$col[0]], array[$col[1]]::bigint[], array[$col[2]]::bigint[],
        array[$hex[0]]::bytea[], array[$hex[1]]::bytea[]) order by ord");
}

# As interlock audit verify does.
sub verify {
    my ($hash, $n) = ($zero, 0);
    for (split /\n/, $c->psql("select n, history_id, encode(prev, 'hex'),
            encode(hash, 'hex'), encode(canonical, 'hex')
            from interlock.effects_chain(t.demo(), 0, 1000)"))
    {
        my ($got, $id, $prev, $link, $canonical) = split /\|/, $_, -1;
        return "removed $id" if $canonical eq '';
        $n++;
        return "changed $id" if $got != $n || $prev ne $hash
            || link_of($hash, $n, $canonical) ne $link;
        $hash = $link;
    }
    my (undef, $unsealed, $inserted, $links, $end) = split /\|/, $c->psql(
        "select last, unsealed, inserted, links, encode(hash, 'hex')
         from interlock.effects_chain_rest(t.demo(), 0, 1000)"), -1;
    return "ends at $n, not $links" if $links != $n || $end ne $hash;
    return "inserted $inserted" if $inserted ne '';
    return $unsealed ? "sound, $unsealed unsealed" : 'sound';
}

# Does it, with all triggers off, looks, and undoes it.
sub forge {
    my ($sql, $want, $what) = @_;
    for my $t (qw(effects_history effects_chain)) {
        $c->psql("create table t.$t as select * from interlock.$t");
    }
    $c->psql("set session_replication_role = replica; $sql");
    like(verify(), $want, "$what is found");
    for my $t (qw(effects_history effects_chain)) {
        $c->psql("set session_replication_role = replica;
            delete from interlock.$t;
            insert into interlock.$t overriding system value
                select * from t.$t; drop table t.$t");
    }
    is(verify(), 'sound', "and the chain sound without it");
}

sub state_of {
    my ($name) = @_;
    return $c->psql("select (t.effect('$name')).state");
}

# A transaction that stays open: returns when its statement has run.
sub open_tx {
    my ($sql) = @_;
    pipe(my $in, my $to) or die "pipe: $!";
    pipe(my $from, my $out) or die "pipe: $!";
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        close $to;
        close $from;
        open STDIN, '<&', $in;
        open STDOUT, '>&', $out;
        exec 'psql', '-qXAt', '-h', $c->{dir}, '-U', 'admin', 'interlock';
        exit 127;
    }
    close $in;
    close $out;
    select((select($to), $| = 1)[0]);
    print $to "begin; $sql;\n\\echo ready\n";
    while (my $line = <$from>) {
        last if $line =~ /^ready/;
    }
    return [$pid, $to, $from];
}

sub close_tx {
    my ($t) = @_;
    print { $t->[1] } "commit;\n";
    close $t->[1];
    my @rest = readline $t->[2];
    waitpid $t->[0], 0;
    return;
}
