#!/usr/bin/perl

# With CPU-bound workers on every core, look-ups still answer: /livez and a
# job by its id stay under 50 ms at the 99th percentile.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use HTTP::Tiny;
use Test::More;
use Time::HiRes qw(time);

use Interlock::Load qw(percentile);
use Interlock::Test;

my $i = Interlock::Test->instance;
chomp(my $cores = `nproc`);
my $workers = 2 * $cores;

my @jobs = map {
    $i->http('POST', '/v1/jobs', { token => 'submit',
        body => { kind => 'free', work_key => "burn:$_" } })->{json}{job_id}
} 1 .. $workers;

my $pid = $i->spawn_cli({ token => 'worker' }, 'work', '--kind', 'free',
    '--concurrency', $workers, '--', 'perl', '-e', '1 while 1');

$i->wait_for(sub {
    $i->psql("select count(*) from interlock.leases") == $workers;
}, 20, "all $workers workers to run");

my $http = HTTP::Tiny->new(timeout => 10);
my $token = $i->token('auditor');
my %ms;

for my $round (1 .. 500) {
    for my $path ('/livez', "/v1/jobs/$jobs[ $round % @jobs ]") {
        my $t0 = time;
        my $res = $http->get($i->url . $path,
            { headers => { authorization => "Bearer $token" } });
        my $kind = $path eq '/livez' ? 'livez' : 'job';
        push @{ $ms{$kind} }, (time - $t0) * 1000;
        $res->{status} == 200 or BAIL_OUT("$path: $res->{status}");
    }
}

for my $kind (sort keys %ms) {
    my ($p50, $p99) = map { percentile($_, @{ $ms{$kind} }) } 0.5, 0.99;
    cmp_ok($p99, '<', 50, sprintf('%s beside %d busy workers on %d cores: '
        . 'p50 %.1f ms, p99 %.1f ms', $kind, $workers, $cores, $p50, $p99));
}

is($i->psql("select count(*) from interlock.leases"), $workers,
    'the workers ran all the while');

kill 'TERM', $pid;
kill 'TERM', $pid;                 # the second one does not wait for children
waitpid($pid, 0);

$i->check_sql;

done_testing();
