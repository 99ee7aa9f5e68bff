#!/usr/bin/perl

# Probes while PostgreSQL hangs: they are answered all the same, soon, and
# say so; and good again as soon as it goes on.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;
use Time::HiRes qw(time);

use Interlock::FastCGI;
use Interlock::Test;

my $i = Interlock::Test->instance;

sub probe {
    my ($path) = @_;
    my $c = Interlock::FastCGI->of_instance($i);
    $c->send(GET => $path);
    return $c;
}

# PostgreSQL's processes: the postmaster and those below it
sub server {
    my $main = $i->pid('postgres');
    return ($main, grep { /^\d+$/ } split ' ',
        Interlock::Test::slurp("/proc/$main/task/$main/children"));
}

is($i->http(POST => '/v1/jobs', { token => 'submit',
    body => { kind => 'free', work_key => 'p:1' } })->{status}, 202, 'a job');
is(probe('/readyz')->response(5)->{status}, 200, 'ready');
like(probe('/metrics')->response(5)->{body}, qr/^interlock_queue_depth/m,
    'with gauges of the database');

my @stopped = server();
kill 'STOP', @stopped;
my $going = 0;
sub go_on { kill 'CONT', @stopped unless $going++ }
END { my $code = $?; go_on(); $? = $code }

for my $round (1, 2) {
    my $t0 = time;
    my @asked = map { probe('/readyz') } 1 .. 5;
    my $metrics = probe('/metrics');
    is(probe('/livez')->response(1)->{status}, 200, "round $round: alive");
    my @status = map { my $r = $_->response(8); $r ? $r->{status} : 'none' }
        @asked;
    is("@status", '503 503 503 503 503', 'not ready');
    my $spent = time - $t0;
    cmp_ok($spent, '<', 2.6, sprintf('said after %.1f s', $spent));
    cmp_ok($spent, '>', 1.5, 'not before it was given time')
        if $round == 1;
    my $res = $metrics->response(8);
    is($res->{status}, 200, '/metrics too');
    like($res->{body}, qr/^interlock_db_up /m, 'without the gauges of the '
        . 'database');
    cmp_ok(time - $t0, '<', 3, 'as soon');
}

go_on();
$i->wait_for(sub { probe('/readyz')->response(5)->{status} == 200 }, 15,
    'it to be ready again');
$i->wait_for(sub { probe('/metrics')->response(5)->{body}
    =~ /^interlock_queue_depth/m }, 15, 'the gauges');
pass('all is well once the database goes on');

done_testing();
