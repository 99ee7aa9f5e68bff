#!/usr/bin/perl

# The connection under the requests: lengths that lie, peers that stall or go
# away in the middle, kept-alive connections that hold no thread.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::FastCGI;
use Interlock::Test;

my $i = Interlock::Test->instance(conf => [ 'threads = 2', 'max_body = 1m',
    'io_timeout = 500ms' ]);
my $pid = $i->backend_pid;
my $token = $i->token('submit');
my $body = '{"kind":"free","work_key":"a:b"}';
my %post = (token => $token, body => $body);

sub connection { return Interlock::FastCGI->of_instance($i) }
sub requests { return $i->psql("select count(*) from interlock.requests") }

my $c = connection();

is($c->request(POST => '/v1/jobs', \%post)->{status}, 202, 'a body');
my $before = requests();

for my $row (
    [ 'shorter than its length', length($body) + 1, 400 ],
    [ 'longer than its length', length($body) - 1, 400 ],
    [ 'with a length of 0', 0, 400 ],
    [ 'with an empty length', '', 400 ],
    [ 'with a length that is no number', '3x', 400 ],
    [ 'with a negative length', '-1', 400 ],
    [ 'with a length beyond any', '9' x 30, 400 ],
    [ 'with a length over the limit', (1 << 20) + 1, 413 ])
{
    my ($what, $length, $status) = @$row;
    my $res = $c->request(POST => '/v1/jobs', { %post,
        params => { CONTENT_LENGTH => $length } });
    is($res->{status}, $status, "a body $what: $status");
    is($res->{headers}{'content-type'}, 'application/problem+json',
        "$what: a problem");
    is($c->request(GET => '/livez')->{status}, 200,
        "$what: the connection lives on");
}

my $res = $c->request(POST => '/v1/jobs', { %post,
    body => 'x' x (3 << 20) });
is($res->{status}, 413, 'three times the limit, really sent: 413');
is($c->request(GET => '/livez')->{status}, 200, 'and the connection lives');
is(requests(), $before, 'nothing of all that was stored');

$res = $c->request(POST => '/v1/jobs', { %post, body =>
    '{"kind":"free","work_key":"big","payload":"' . 'x' x (1000 * 1000)
    . '"}' });
is($res->{status}, 202, 'a body just below the limit');

# A peer that closes in the middle of it, at every kind of place.

$before = requests();
my $whole = Interlock::FastCGI::encode(POST => '/v1/jobs', \%post);
for my $n (0, 1, 7, 8, 20, 60, length($whole) - 30, length($whole) - 9,
    length($whole) - 8, length($whole) - 1)
{
    my $d = connection();
    $d->write(substr $whole, 0, $n);
    $d->close;
}
$i->wait_for(sub {
    $i->metrics->{interlock_inflight_requests} == 1;
}, 5, 'the broken ones to be over');
is(requests(), $before, 'a request that broke off in the middle is none');

# One that stalls holds a worker no longer than io_timeout; two of them are
# all there is of workers here.

my @stalled = map { connection() } 1 .. 4;
$_->send(POST => '/v1/jobs', { %post, parts => 'open' }) for @stalled;
my $t0 = time;
is(connection()->request(GET => '/livez')->{status}, 200,
    'peers that stall hold no worker for ever');
cmp_ok(time - $t0, '<', 4, 'but for their timeout');
$_->close for @stalled;

# What is no FastCGI at all.

for my $bytes ("GET / HTTP/1.1\r\n\r\n", "\x02" x 64, "\x01\x01" . "\xff" x 64,
    Interlock::FastCGI::record(9, ''), pack('CCnnCC', 1, 4, 1, 65535, 255, 0)
    . 'x' x 70000,
    Interlock::FastCGI::record(1, pack('nCx5', 1, 1))
    . Interlock::FastCGI::record(4, "\xff\xff\xff\xff\xff\xff\xff\xff"),
    Interlock::FastCGI::record(1, pack('nCx5', 7, 1)))
{
    my $d = connection();
    $d->write($bytes);
    my $r = $d->response(3);
    ok(!$r || $r->{closed} || $r->{status} >= 400, 'garbage is not served');
    $d->close;
}
is(connection()->request(GET => '/livez')->{status}, 200,
    'others are, after it');

# 500 connections, idle between two requests, and two workers.

my @idle = map { connection() } 1 .. 500;
my $bad = grep { $_->request(GET => '/livez')->{status} != 200 } @idle;
is($bad, 0, '500 kept-alive connections are served by two workers');
$bad = grep { $_->request(GET => '/livez')->{status} != 200 } reverse @idle;
is($bad, 0, 'and again');
$_->close for @idle;

# Without FCGI_KEEP_CONN the connection is closed after the answer.

my $d = connection();
is($d->request(GET => '/livez', { close => 1 })->{status}, 200,
    'a connection for one request');
ok($d->response(5)->{closed}, 'is closed behind it');

# Odd parameters.

is($c->request(GET => '/livez', { params => { REQUEST_URI => '' } })
    ->{status}, 404, 'an empty path');
is($c->request(GET => '/livez', { params => { REQUEST_URI => undef } })
    ->{status}, 404, 'no path');
is($c->request(GET => '/livez', { params => { REQUEST_METHOD => undef } })
    ->{status}, 405, 'no method');
is($c->request(GET => '/livez?a=b&c', {})->{status}, 200, 'a query');
my %many = map { ("HTTP_X_$_" => 'v' x 20) } 1 .. 10_000;
is($c->request(POST => '/in/x', { params => { %many,
    INTERLOCK_TENANT => 'demo', INTERLOCK_SOURCE => 'x',
    INTERLOCK_KIND => 'webhook', INTERLOCK_WORK_KEY => 'x:many',
    INTERLOCK_VERIFIED => 'token' }, body => '{}' })->{status}, 202,
    '10,000 headers');
cmp_ok($i->psql('select max(length(headers)) from interlock.payloads'), '<',
    70_000, 'of which a bounded part is kept');

is($i->backend_pid, $pid, 'the same process all along');
$i->check_sql;

done_testing();
