#!/usr/bin/perl

# 5,000 workers wait for work at once.  They hold no thread, the process stays
# small, and a job that arrives reaches one of them at once.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Poll qw(POLLIN POLLHUP);
use IO::Socket::INET;
use JSON::PP;
use Test::More;
use Time::HiRes qw(time);

use Interlock::Load qw(percentile);
use Interlock::Test;

my $parked = 5000;
my $rounds = 40;

my $i = Interlock::Test->instance;
my $pid = $i->backend_pid;
my $token = $i->token('worker');

sub status_of {
    my ($name) = @_;
    open my $fh, '<', "/proc/$pid/status" or die "status: $!";
    while (<$fh>) { return $1 if /^$name:\s+(\d+)/; }
    die "no $name";
}

my $threads = status_of('Threads');
my ($host, $port) = $i->url =~ m{//([^:]+):(\d+)};
my $body = encode_json({ worker => 'w', kinds => ['free'], max => 1,
    wait => 30 });
my $request = "POST /v1/leases HTTP/1.1\r\nHost: x\r\n"
    . "Authorization: Bearer $token\r\nContent-Type: application/json\r\n"
    . 'Content-Length: ' . length($body) . "\r\n\r\n$body";

my (%sock, $poll);
$poll = IO::Poll->new;

sub park {
    my $s = IO::Socket::INET->new(PeerAddr => $host, PeerPort => $port)
        or die "connect: $!";
    syswrite($s, $request) == length($request) or die "write: $!";
    $sock{ fileno $s } = $s;
    $poll->mask($s => POLLIN);
}

my $t0 = time;
park() for 1 .. $parked;

$i->wait_for(sub {
    my ($n) = $i->http('GET', '/metrics')->{body}
        =~ /^interlock_parked_requests\S* (\d+)/m;
    return ($n // 0) >= $parked;
}, 60, "$parked requests to be parked");
my $took = time - $t0;

my $rss = status_of('VmRSS') / 1024;

is(status_of('Threads'), $threads, "$threads threads, as with none parked");
cmp_ok($rss, '<', 100,
    sprintf('%d parked claims: %.1f MB resident', $parked, $rss));

my @ms;
for my $n (1 .. $rounds) {
    my $start = time;
    my $res = $i->http('POST', '/v1/jobs', { token => 'submit',
        body => { kind => 'free', work_key => "parked:$n" } });
    is($res->{status}, 202, "job $n submitted") or last;

    my ($answer, @ready) = ('');
    my $deadline = time + 10;
    while (!@ready && time < $deadline) {
        $poll->poll(1);
        @ready = $poll->handles(POLLIN | POLLHUP);
    }
    push @ms, (time - $start) * 1000;
    is(scalar @ready, 1, "one of them wakes for job $n") or last;

    my $s = $ready[0];
    sysread($s, $answer, 65536);
    like($answer, qr/"job_id":\s?"$res->{json}{job_id}"/, 'with that job');
    $poll->remove($s);
    delete $sock{ fileno $s };
    close $s;
}

my $median = percentile(0.5, @ms);
cmp_ok($median, '<', 50, sprintf('from the submission to the worker: median '
    . '%.1f ms, p99 %.1f ms (parked in %.1f s)', $median,
    percentile(0.99, @ms), $took));

is($i->psql('select count(*) from interlock.leases'), $rounds,
    'each job is leased once');

# Clients that go away free their place.

for my $s (values %sock) { close $s; }
$i->wait_for(sub {
    my ($n) = $i->http('GET', '/metrics')->{body}
        =~ /^interlock_parked_requests\S* (\d+)/m;
    return defined $n && $n == 0;
}, 20, 'the places of gone clients to be free');
pass('places of clients that went away are free');

$i->check_sql;

done_testing();
