#!/usr/bin/perl

# sql/contrib/fence_guard.sql on a cluster of its own, which knows nothing of
# interlock: two owners of one work key, as interlock's cluster makes them,
# write there; the first is a process that was stopped and goes on later.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use POSIX qw(WUNTRACED);
use Test::More;

use Cluster;

my $il  = Cluster->new;
my $own = Cluster->new(bare => 1);

$own->psql('create role writer login; create database own', db => 'postgres');
own(undef, file => "$Cluster::ROOT/sql/contrib/fence_guard.sql");
own(undef, file => "$Cluster::ROOT/sql/contrib/fence_guard.sql");
own(q{
    create table report (work_key text, line int, text text, fence bigint);
    create trigger guard before insert or update or delete on report
        for each row execute function
        fence_guard.refuse_stale('work_key', 'fence');
    create table quiet (work_key text, text text);
    create trigger guard before insert or update or delete on quiet
        for each row execute function fence_guard.refuse_stale('work_key');
    grant all on report, quiet to writer;
    grant usage on schema fence_guard to writer;
    grant execute on function fence_guard.pass(text, bigint) to writer;
});

# Two owners, by interlock.
$il->psql(q{
    select t.policy('report', 'overlap skip');
    select ord from t.submit('report', 'report:1');
    select t.take('old', 'report');
});
my $old = fence('old');

# The first one begins to write, and is stopped before the rest.
my $w = writer();
send_to($w, "insert into report values ('report:1', 1, 'old', $old);");
is(heard($w), '', 'the first owner writes');
stop_it($w);
send_to($w, "insert into report values ('report:1', 2, 'old', $old);");

# Meanwhile it loses its lease, and the next one writes.
$il->psql(q{
    select t.expire('old');
    select interlock.recover(10);
    select t.take('new', 'report');
});
my $new = fence('new');
cmp_ok($new, '>', $old, 'the next owner has a higher fence');
is(try_own("insert into report values ('report:1', 2, 'new', $new)"), '',
    'it writes');

kill 'CONT', $w->{pid};
like(heard($w), qr/stale fence $old for "report:1": $new was here/,
    'the paused one goes on, and is refused');
is(own('select string_agg(text, \',\' order by line) from report'), 'old,new',
    'what the next one wrote stands');
for my $sql ("update report set text = 'late', fence = $new",
    'delete from report',
    "begin; set local fence_guard.fence = $old; delete from report; commit",
    "begin; set local fence_guard.fence = $old;
        update report set text = 'late' where line = 2; commit",
    "select fence_guard.pass('report:1', $old)",
    "insert into report values ('report:1', 3, 'x', null)",
    "insert into report values (null, 3, 'x', 9)")
{
    like(try_own($sql), qr/stale fence|no (?:fence|resource)/, $sql);
}
is(try_own("begin; set local fence_guard.fence = $new;
    delete from report where line = 1; commit"), '', 'the owner deletes');
is(try_own("insert into report values ('report:2', 1, 'y', 1)"), '',
    'another resource has fences of its own');

# The fence is said by the transaction.
like(try_own("insert into quiet values ('report:1', 'x')"), qr/no fence/,
    'no fence was said');
like(try_own("begin; set local fence_guard.fence = $old;
    insert into quiet values ('report:1', 'x'); commit"), qr/stale fence/,
    'a stale one');
is(try_own("begin; set local fence_guard.fence = $new;
    insert into quiet values ('report:1', 'x'); commit"), '', 'the owner\'s');
like(try_own("insert into quiet values ('report:1', 'x')"), qr/no fence/,
    'it ends with the transaction');

# A predecessor that is stopped with its transaction open: what it wrote comes
# before its successor's, never after.
$w = writer();
send_to($w, "begin; insert into report values ('report:3', 1, 'old', 1);");
is(heard($w), '', 'it writes, and has not committed');
stop_it($w);
my $next = writer();
send_to($next, "begin; select fence_guard.pass('report:3', 2);");
wait_for(sub {
    own(q{select count(*) from pg_stat_activity where wait_event_type = 'Lock'
          and query like '%report:3%'})
}, 'the successor waits for it');
send_to($w, 'commit;');
kill 'CONT', $w->{pid};
is(heard($w), '', 'it goes on and commits');
is(heard($next), '', 'then the successor passes');
send_to($next, "set local fence_guard.fence = 2; update report
    set text = 'new' where work_key = 'report:3'; commit;");
is(heard($next), '', 'and changes what it sees');
send_to($w, "insert into report values ('report:3', 2, 'old', 1);");
like(heard($w), qr/stale fence/, 'the predecessor is refused from then on');
is(own(q{select string_agg(text, ',') from report
    where work_key = 'report:3'}), 'new', 'what the successor wrote stands');

# A row that changes hands needs the fence of both.
own(q{insert into report values ('a', 1, 'x', 5), ('b', 1, 'x', 9)});
for my $move (q{'b' where work_key = 'a'}, q{'a' where work_key = 'b'}) {
    like(try_own("begin; set local fence_guard.fence = 6;
        update report set work_key = $move; commit"),
        qr/stale fence 6 for "b"/, "moved: $move");
}
is(try_own(q{begin; set local fence_guard.fence = 9;
    update report set work_key = 'b' where work_key = 'a'; commit}), '',
    'with the higher one it may');

like(try_own('update fence_guard.fences set fence = 1', user => 'writer'),
    qr/permission denied/, 'who writes cannot lower a fence');
is(try_own(q{insert into report values ('c', 1, 'x', 1)}, user => 'writer'),
    '', 'but write');

done_testing;

sub fence {
    my ($who) = @_;
    return $il->psql("select fence from t.held where who = '$who'");
}

sub own {
    my ($sql, %opt) = @_;
    return $own->psql($sql, db => 'own', %opt);
}

# The error, or nothing.
sub try_own {
    my ($sql, %opt) = @_;
    my ($rc, undef, $err) = $own->try_psql($sql, db => 'own', %opt);
    return $rc ? $err : '';
}

# A psql of its own, which says "done" behind every command.
sub writer {
    my %w;
    pipe(my $in, $w{to}) or die "pipe: $!";
    pipe($w{from}, my $out) or die "pipe: $!";
    $w{pid} = fork // die "fork: $!";
    if (!$w{pid}) {
        close $w{to};
        close $w{from};
        open STDIN, '<&', $in;
        open STDOUT, '>&', $out;
        open STDERR, '>&', \*STDOUT;
        exec 'psql', '-qXAt', '-h', $own->{dir}, '-U', 'admin', 'own';
        exit 127;
    }
    close $in;
    close $out;
    select((select($w{to}), $| = 1)[0]);
    push our @writers, \%w;
    return \%w;
}

sub send_to {
    my ($w, $sql) = @_;
    print { $w->{to} } "$sql\n\\echo done\n";
    return;
}

sub heard {
    my ($w) = @_;
    my $text = '';
    while (defined(my $line = readline $w->{from})) {
        last if $line eq "done\n";
        $text .= $line if $line =~ /ERROR/;
    }
    return $text;
}

sub stop_it {
    my ($w) = @_;
    kill 'STOP', $w->{pid};
    waitpid $w->{pid}, WUNTRACED;
    return;
}

sub wait_for {
    my ($sub, $what) = @_;
    my $until = time + 20;
    while (time < $until) {
        if ($sub->()) {
            pass($what);
            return;
        }
        select undef, undef, undef, 0.02;
    }
    fail($what);
    return;
}

END {
    our @writers;
    local $?;
    for my $w (@writers) {
        kill 'CONT', $w->{pid};
        close $w->{to};
        waitpid $w->{pid}, 0;
    }
}
