#!/usr/bin/perl

# The provider's stand-in (Interlock::Provider): what it says it does is what
# it does, for other tests judge by its record.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Socket::INET;
use JSON::PP ();
use Test::More;

use Interlock::HTTP;
use Interlock::Provider;

my $p = Interlock::Provider->new;
my $json = JSON::PP->new->utf8->canonical;

# request(METHOD, path, key, body): the answer, or the error in {reason}
sub request {
    my ($method, $path, $key, $body, $opt) = @_;

    my $text = defined $body ? $json->encode($body) : '';
    my $raw = Interlock::HTTP::raw($p->port, "$method $path HTTP/1.1\r\n"
        . "Host: p\r\nConnection: close\r\n"
        . (defined $key ? "Idempotency-Key: $key\r\n" : '')
        . 'Content-Length: ' . length($text) . "\r\n\r\n$text",
        { timeout => 5, method => $method, %{ $opt // {} } });
    return $raw->{responses}[0]
        // { status => 599, reason => $raw->{error}, text => $raw->{text} };
}

sub post {
    my ($reference, $key, $opt) = @_;

    return request(POST => '/charges', $key, { reference => $reference,
        amount => 5 }, $opt);
}

# later(reference, key): a socket on which the answer will come
sub later {
    my ($reference, $key) = @_;

    my $text = $json->encode({ reference => $reference, amount => 5 });
    my $sock = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
        PeerPort => $p->port) or die "connect: $!";
    print $sock "POST /charges HTTP/1.1\r\nHost: p\r\nConnection: close\r\n"
        . (defined $key ? "Idempotency-Key: $key\r\n" : '')
        . 'Content-Length: ' . length($text) . "\r\n\r\n$text";
    $sock->flush;
    return $sock;
}

sub status { local $/; return (readline($_[0]) // '') =~ / (\d+)/ ? $1 : 0 }

# Acting, and honouring keys

my $first = post('a', 'k1');
is($first->{status}, 200, 'it acts');
is($first->{json}{id}, 'ch_1', 'and says what it did');
my $again = post('a', 'k1');
is($again->{body}, $first->{body}, 'the same key: the first answer');
is($again->{headers}{'idempotent-replayed'}, 'true', 'which it says');
is($p->done('a'), 1, 'and nothing is done twice');
is(post('b', 'k1')->{status}, 422, 'the key with another body: 422');
is($p->done('b'), 0, 'and nothing is done');
is(post('a', undef)->{status}, 200, 'without a key it acts');
is($p->done('a'), 2, 'again');
$p->forget;
is(post('a', 'k1')->{status}, 200, 'a key that it has forgotten');
is($p->done('a'), 3, 'is a new one');

# Refusing

$p->reset;
is($p->done, 0, 'as new');
$p->next(429, 500);
my $refused = post('r', 'k2');
is($refused->{status}, 429, 'a refusal');
is($refused->{headers}{'retry-after'}, 1, 'with Retry-After');
is(post('r', 'k2')->{status}, 500, 'another');
is($p->done, 0, 'of which nothing is done');
is(post('r', 'k2')->{status}, 200, 'then it acts');
$p->next(429);
is(post('r', 'k2')->{status}, 429, 'a gateway refuses a known key, too');
is($p->done('r'), 1, 'done once');

# Losing the answer

$p->next(qw(drop act_drop act_drop act_reset act_cut act_500));
is(post('d', 'd0')->{status}, 599, 'closed before acting');
is($p->done('d'), 0, 'nothing is done');
is(post('d', 'd1')->{status}, 599, 'closed after acting');
is($p->done('d'), 1, 'it is done');
is(post('d', 'd1')->{status}, 599, 'the answer again, and lost again');
is($p->done('d'), 1, 'still once');
is(post('d', 'd9')->{status}, 599, 'reset after acting');
is($p->done('d'), 2, 'it is done');
my $cut = post('d', 'd2');
is($cut->{status}, 599, 'an answer cut in two');
like($cut->{text}, qr/^HTTP\/1\.1 200 .*"id"/s, 'half of it is there');
is($p->done('d'), 3, 'it is done');
is(post('d', 'd3')->{status}, 500, 'acted, and says 500');
is($p->done('d'), 4, 'it is done');
is(post('d', 'd3')->{status}, 500, 'and that is its answer for that key');
$p->next('act_202');
is(post('d', 'd4')->{status}, 202, 'accepted only: 202');
is($p->done('d'), 5, 'it is done');

# Hanging

$p->reset;
$p->next('hang', 'hang_after', 'hang');
my $s1 = later('h', 'h1');
$p->wait_for_waiting(1);
is($p->done('h'), 0, 'it hangs before acting');
my $s2 = later('h', 'h2');
my @waiting = $p->wait_for_waiting(2);
is($p->done('h'), 1, 'another acted and hangs');
is(join(' ', map { $_->{key} } @waiting), 'h1 h2', 'both are told');
my $s3 = later('h', 'h3');
$p->wait_for_waiting(3);
is($p->release('drop', 1), 1, 'the first is given up');
is(status($s1), 0, 'its connection closes');
is($p->release('go', 1), 1, 'the second goes on');
is(status($s2), 200, 'and answers');
close $s3;
is($p->release, 1, 'the third goes on, though its client has left');
is($p->done('h'), 2, 'and is done all the same');
is(scalar(grep { $_->{over} } $p->heard), 3, 'all three are over');

$p->next('hang');
my $s4 = later('h', 'h4');
$p->wait_for_waiting(1);
is(post('h', 'h4')->{status}, 409, 'a key under way: 409');
$p->release;
is(status($s4), 200, 'the first one is answered');
is(post('h', 'h4')->{headers}{'idempotent-replayed'}, 'true',
    'and its key kept');

# By reference

$p->next_for('mine', 'hang', 402);
my $s5 = later('mine', 'r1');
is(post('other', 'r2')->{status}, 200, 'a step for one reference only');
$p->next('hang');
my $s6 = later('other', 'r3');
$p->wait_for_waiting(2);
is($p->release_for('mine', 'go'), 1, 'that one goes on');
is(status($s5), 200, 'and is answered');
is(scalar $p->waiting, 1, 'another hangs on');
is(post('mine', 'r4')->{status}, 402, 'its next step');
$p->release('drop');
is(status($s6), 0, 'the other is given up');
is($p->done('other'), 1, 'and not done');

# Looking up

is(request(GET => '/charges/h', undef)->{json}{count}, 3, 'by reference');
is(request(GET => '/charges/h4', undef)->{json}{id}, 'ch_3', 'by key');
is(request(GET => '/charges/ch_3', undef)->{status}, 200, 'by id');
is(request(GET => '/charges/none', undef)->{status}, 404, 'not there');
$p->look(503, 'drop');
is(request(GET => '/charges/h', undef)->{status}, 503, 'it may refuse');
is(request(GET => '/charges/h', undef)->{status}, 599, 'or say nothing');
is($p->done, 5, 'looking does nothing');

# A key means nothing

$p->reset;
$p->honours(0);
post('m', 'm1') for 1 .. 2;
is($p->done('m'), 2, 'a provider that knows no keys acts twice');
is(($p->record)[0]{key}, 'm1', 'though it was told');

# Away

$p->down;
like(post('x', 'x1')->{reason}, qr/refused/, 'down: nobody can connect');
$p->up;
is(post('x', 'x1')->{status}, 200, 'up again');
is($p->done, 3, 'with its record');

# Others

my $q = Interlock::Provider->new(remembers => 'all');
my $raw = sub { Interlock::HTTP::raw($q->port, "POST / HTTP/1.1\r\nHost: p\r\n"
    . "Idempotency-Key: z\r\nConnection: close\r\nTransfer-Encoding: chunked"
    . "\r\n\r\n2\r\n{}\r\n0\r\n\r\n")->{responses}[0]{status} };
$q->next(402);
is($raw->(), 402, 'one that keeps refusals');
is($raw->(), 402, 'says the same for the same key');
is($q->done, 0, 'and does nothing');

$q->next({ act => 1, size => 100_000 });
my $long = Interlock::HTTP::raw($q->port, join('', map { "POST /$_ HTTP/1.1"
    . "\r\nHost: p\r\nContent-Length: 0\r\n\r\n" } 1, 2), { count => 2 });
is(scalar @{ $long->{responses} }, 2, 'two requests over one connection');
cmp_ok(length $long->{responses}[0]{body}, '>', 100_000, 'a long answer');

done_testing();
