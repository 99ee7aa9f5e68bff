#!/usr/bin/perl

# The backend is killed with -9 at random, 50 times, under load; the client
# repeats each delivery until it is answered with a 2xx.  Exactly one job for
# each event, none lost.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep);

use Interlock::Load qw(run_clients github_request);
use Interlock::Test;

my $full = $ENV{INTERLOCK_FULL};
my $kills  = $full ? 250 : 50;
my $events = $full ? 20_000 : 4000;
my $seed   = $ENV{SEED} // time;

srand($seed);
note("SEED=$seed");

my $i = Interlock::Test->instance;

# The killer: a process of its own, so that the load never waits for it.  It
# reports how many kills it made through its exit code, and goes on until the
# clients are done or it has made all its kills.

my $killer = fork() // die "fork: $!";
if (!$killer) {
    my $n = 0;
    $SIG{TERM} = sub { POSIX::_exit($n) };
    while ($n < $kills) {
        sleep(0.02 + rand 0.13);
        my $pid = eval { $i->backend_pid } or next;
        $n++ if kill 'KILL', $pid;
    }
    POSIX::_exit($n);
}

my @requests = map {
    github_request($i->dir, "event-$_", 'push', qq({"ref":"refs/heads/e$_",)
        . '"repository":{"full_name":"acme/crash"}}')
} 1 .. $events;

my $answers = run_clients(clients => 16, url => $i->url,
    requests => \@requests,
    until => sub { $_[0]{status} >= 200 && $_[0]{status} < 300 });

my $early = waitpid($killer, POSIX::WNOHANG()) == 0;
if ($early) {
    kill 'TERM', $killer;
    waitpid($killer, 0);
}
my $made = $? >> 8;

my $repeated = grep { $_->{tries} > 1 } @$answers;
is($made, $kills, "the backend was killed $made times under load");
is(scalar @$answers, $events, "$events deliveries ended with a 2xx,"
    . " $repeated of them after being repeated");
cmp_ok($repeated, '>', 0, 'the kills were felt');

is($i->psql('select count(*) from interlock.jobs'), $events,
    'one job for each event, none lost');
is($i->psql('select count(distinct work_key) from interlock.jobs'), $events,
    'and each event has its own');

my %answered = map {
    my ($id) = $_->{body} =~ /"job_id":\s?"([0-9a-f-]{36})"/;
    ($id // "none in $_->{body}") => 1
} @$answers;
is(scalar keys %answered, $events, 'every answer names another job');
is($i->psql("select count(*) from interlock.jobs where id::text = any('{"
    . join(',', keys %answered) . "}')"), $events, 'and each one is stored');

$i->check_sql;

done_testing();
