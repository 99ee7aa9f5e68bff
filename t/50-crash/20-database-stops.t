#!/usr/bin/perl

# PostgreSQL is stopped in immediate mode (no checkpoint, every backend ends
# where it is) and started again while 200 jobs run, several times; then one
# connection after the other is cut by pg_terminate_backend, whatever it is
# doing.  Each job ends exactly once, none is lost, and whatever a client or a
# worker was told with a 2xx is in the database.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::Crew;
use Interlock::Session;
use Interlock::Test;

my $full = $ENV{INTERLOCK_FULL};
my $stops = $full ? 40 : 4;
my $cuts = $full ? 3000 : 100;
my $running = 200;
my $seed = $ENV{SEED} // time;

srand($seed);
note("SEED=$seed");

my $i = Interlock::Test->instance;
my $crew = Interlock::Crew->new($i, workers => 6, hold => 45, clients => 3,
    seed => $seed);

sub leases { return eval { $i->psql(
    'select count(*) from interlock.leases') } // 0 }

my ($least, @away) = (1e9);
for my $n (1 .. $stops) {
    my $now;
    sleep(rand 0.4);
    $i->wait_for(sub { ($now = leases()) >= $running }, 30,
        "$running running jobs");
    $least = $now if $now < $least;

    my $old = $i->pid('postgres');
    my $t0 = time;
    kill 'QUIT', $old or die "kill $old: $!";      # stop -m immediate
    $i->wait_for(sub {
        my $new = eval { $i->pid('postgres') };
        $new && $new != $old
            && $i->http(GET => '/readyz')->{status} == 200;
    }, 30, 'PostgreSQL and interlockd to be back');
    push @away, time - $t0;
}
cmp_ok($least, '>=', $running,
    "stopped $stops times, with at least $least running jobs");
note(sprintf 'away for %s s', join ' ', map { sprintf '%.2f', $_ } @away);

my $db = Interlock::Session->new($i->dsn('admin'));
my %cut;
for my $n (1 .. $cuts) {
    sleep(0.01 + rand 0.04);
    for ($db->do('select application_name, pg_terminate_backend(pid) from '
        . "pg_stat_activity where application_name like 'interlockd%' "
        . 'order by random() limit 1'))
    {
        $cut{ $_->[0] }++;
    }
}
cmp_ok(scalar keys %cut, '>=', 5, 'connections cut: ' . join ', ',
    map { "$_ $cut{$_}" =~ s/interlockd //r } sort keys %cut);

$crew->finish(60);
my $sum = $crew->verify;
my $unknown = $i->metrics->{'interlock_db_errors_total{class="unknown"}'};
cmp_ok($unknown // 0, '>=', $stops, "the stops were felt: $unknown calls had "
    . "an unknown outcome, $sum->{unanswered} of them were left to the caller");
note(join ', ', map { "$_ $sum->{$_}" } sort keys %$sum);

my $crashes = () = Interlock::Test::slurp($i->dir . '/log/postgres.log')
    =~ /was not properly shut down|immediate shutdown request/g;
cmp_ok($crashes, '>=', $stops, 'the server recovered from its log each time');

done_testing();
