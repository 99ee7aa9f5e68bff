#!/usr/bin/perl

# History and those who work beside it: what is in the way of dropping a week
# is let be, and nobody waits for the attempt.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use IPC::Open2;
use POSIX ();
use Test::More;
use Time::HiRes qw(time);

use Cluster;

my $c = Cluster->new;

# A session of its own; say_it gives it a statement and waits for its end.
my ($out, $in);
my $pid = open2($out, $in, 'psql', '-XAtq', '-d', 'interlock');
sub say_it {
    my ($sql) = @_;
    print {$in} "$sql;\n\\echo done\n";
    $in->flush;
    my @lines;
    while (defined(my $line = <$out>)) {
        chomp $line;
        last if $line eq 'done';
        push @lines, $line;
    }
    return join "\n", @lines;
}

$c->psql(q{
    select t.kind('work', '{"overlap":"allow"}');
    select interlock.history_part(h.name, h.key,
        date_trunc('week', clock_timestamp(), 'UTC') - interval '490 days')
    from interlock.history_tables() h;
});
my $weeks = q{select count(*) from interlock.history_weeks() h
              where h.week < clock_timestamp() - interval '400 days'};
is($c->psql($weeks), 4, 'an old week of each table');

for my $hold (
    [ 'reads all history',
      q{select count(*) from interlock.requests, interlock.jobs} ],
    [ 'writes history',
      q{select count(*) from t.submit('work', 'w:1')} ],
    [ 'reads the week itself',
      sub { 'select count(*) from interlock.' . $c->psql(q{
          select h.name from interlock.history_weeks() h
          where h.parent = 'payloads' order by h.week limit 1}) } ],
    [ 'vacuums, or holds such a lock',
      q{lock table interlock.attempts in share update exclusive mode} ])
{
    my ($what, $sql) = @$hold;
    $sql = $sql->() if ref $sql;
    say_it("begin; $sql");

    $c->psql(q{update interlock.history set next_at = '-infinity'});
    my $t = time;
    $c->psql('select interlock.prune(100)');
    cmp_ok(time - $t, '<', 5, "somebody $what: prune does not wait for it");
    is($c->psql($weeks), 4, '... nothing is dropped');
    is($c->psql('select why from interlock.history'), 'somebody reads',
        '... and it is told why');
    is($c->psql(q{select next_at between clock_timestamp()
                      and clock_timestamp() + interval '1 minute'
                  from interlock.history}), 't', '... for a minute');
    is($c->psql(q{select outcome from t.submit('work', 'w:2')}), 'ok',
        '... and work goes on');
    say_it('rollback');
}

# Who comes while prune waits has to wait for it, and no longer than it does.
say_it('begin; select count(*) from interlock.requests');
$c->psql(q{update interlock.history set next_at = '-infinity'});
my $other = fork // die "fork: $!";
if (!$other) {
    my @slow;
    my $end = time + 3;
    while (time < $end) {
        my $t = time;
        my ($rc) = $c->try_psql(q{select outcome from t.submit('work', 'y')});
        push @slow, $rc, time - $t if $rc || time - $t > 2;
    }
    POSIX::_exit(@slow ? 1 : 0);
}
for (1 .. 20) {
    $c->psql(q{update interlock.history set next_at = '-infinity';
               select interlock.prune(100)});
}
waitpid $other, 0;
is($?, 0, 'no submission waits for long, or fails, while prune tries again');
say_it('rollback');

$c->psql(q{update interlock.history set next_at = '-infinity';
           select interlock.prune(100)});
is($c->psql($weeks), 0, 'nobody is in the way: the week goes');
is($c->psql('select why is null and gone_to > now() - interval \'490 days\'
             from interlock.history'), 't', '... which is noted');

close $in;
waitpid $pid, 0;

is($c->check, '', 'check.sql finds nothing');

done_testing;
