# The zone: how long entries live, what is given up for room and what never,
# what keeps callers apart.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use IO::Socket::UNIX;
use Test::More;

my $gate = 'interlock zone=z; interlock_kind k; interlock_wait 100ms;'
    . 'interlock_idempotency_key $http_x_id;';

# The configuration is the same in each part but for the zone.
sub zone {
    my ($zone) = @_;

    my $t = Interlock::Nginx->new(workers => 2,
        http => "interlock_zone zone=z:$zone;",
        server => <<"END");
        interlock_tenant demo;
        location /in { interlock_source s; $gate fastcgi_pass backend; }
        location /work { interlock_source s; $gate fastcgi_pass backend;
            interlock_work_key w \$http_x_work; }
        location /token { interlock_source s; $gate fastcgi_pass backend;
            interlock_verify token secret=secrets/t header=X-Token; }
        location /stuck { interlock_source stuck; $gate
            fastcgi_pass unix:%%DIR%%/stuck.sock; }
        location /big { interlock_source b; $gate fastcgi_pass backend; }
        location = /status { interlock_status; }
END
    $t->secret(t => "s3cret\n");
    return $t->start;
}

sub post {
    my ($t, $path, $id, $do, @h) = @_;
    return $t->http(POST => $path, { body => '{}', headers =>
        [ 'X-Id' => $id, 'X-Backend' => $do // '', @h ] });
}

sub replayed {
    my ($res) = @_;
    return defined Interlock::Nginx::header($res, 'idempotency-replayed');
}


# how long an answer is kept

my $t = zone('1m done=1s in_flight=1s');

post($t, '/in', 'a');
ok(replayed(post($t, '/in', 'a')), 'kept');
$t->wait_for(sub { !replayed(post($t, '/in', 'a')) }, 5, 'done= to end it');
pass('done= ends it');
ok(replayed(post($t, '/in', 'a')), 'the new answer is kept again');

# an entry in flight ends by time; its late owner settles nothing
my $c = $t->connect;
$c->request(POST => '/in', { body => '{}', close => 1,
    headers => [ 'X-Id' => 'b', 'X-Backend' => 'hold=b' ] });
$t->wait_for(sub { $t->status->{in_flight} == 1 }, 5, 'one in flight');
is(post($t, '/in', 'b')->{status}, 409, 'in flight');
my $second;
$t->wait_for(sub { ($second = post($t, '/in', 'b'))->{status} == 202 }, 5,
    'in_flight= to end it');
ok(!replayed($second), 'in_flight= ends it');
cmp_ok($t->status->{expired_in_flight}, '>=', 1, 'which is counted');
$t->let_go('b');
my $late = $c->response;
isnt($late->{body}, $second->{body}, 'the late one has its own answer');
is(post($t, '/in', 'b')->{body}, $second->{body}, 'but the new owner\'s is kept');
$t->finish;


# what the backend grants, the epoch, who asks

$t = zone('1m');

post($t, '/in', 'a', 'done=1');
ok(replayed(post($t, '/in', 'a')), 'kept for a second');
$t->wait_for(sub { !replayed(post($t, '/in', 'a', 'done=1')) }, 5,
    'Interlock-Done-For to end it');
pass('Interlock-Done-For ends it');

post($t, '/in', "e$_", 'epoch=one') for 1 .. 5;
is($t->status->{epoch}, 'one', 'epoch');
is($t->status->{epoch_changes}, 0, 'the first one is no change');
ok(replayed(post($t, '/in', 'e1')), 'kept');
my $done = $t->status->{done};
cmp_ok($done, '>=', 5, 'five are done');
post($t, '/in', 'e6', 'epoch=two');
is($t->status->{done}, 1, 'a new epoch: only its own answer is kept');
is($t->status->{epoch_changes}, 1, 'counted');
ok(!replayed(post($t, '/in', 'e1', 'epoch=two')), 'the others are asked again');
ok(replayed(post($t, '/in', 'e6')), 'the new one is kept');

# an answer that is not kept may tell the epoch, too
post($t, '/in', 'e7', 'epoch=three;status=500');
is($t->status->{epoch}, 'three', 'epoch of a failure');
is($t->status->{done}, 0, 'nothing of before is kept');
post($t, '/in', 'e8', 'epoch=' . 'x' x 33);
is($t->status->{epoch}, 'three', 'a longer one is not an epoch');

# 300 epochs: the generation wraps
post($t, '/in', "g$_", "epoch=g$_") for 1 .. 300;
is($t->status->{done}, 1, 'after many epochs one is kept');
ok(replayed(post($t, '/in', 'g300')), 'the last one');
ok(!replayed(post($t, '/in', 'g44')), 'and not one of 256 epochs before');

# without a signature nginx cannot know who asks
my @who = ([ Authorization => 'Bearer a' ], [ Authorization => 'Bearer b' ],
    [ Cookie => 's=1' ], [ Cookie => 's=2' ],
    [ Cookie => 's=1', Cookie => 's=2' ], [ Authorization => 'Bearer a',
    Cookie => 's=1' ], []);
for my $h (@who) {
    my $name = join(' ', @$h) || 'nobody';
    my $res = post($t, '/in', 'who', '', @$h);
    ok(!replayed($res), "$name: asked");
    is(post($t, '/in', 'who', '', @$h)->{body}, $res->{body}, "$name: again");
}
my $res = post($t, '/token', 'who', '', 'X-Token' => 's3cret');
ok(!replayed($res), 'verified: an entry of its own');
is(post($t, '/token', 'who', '', 'X-Token' => 's3cret',
    Authorization => 'Bearer a')->{body}, $res->{body},
    'verified: Authorization is nothing to it');
$t->finish;


# tiny zones, full; the first is the smallest there may be

for my $tiny ([ '32k', 128 ], [ '64k', 256 ]) {
    $t = zone("$tiny->[0] in_flight=60s");
    my $capacity = $t->status->{capacity};
    cmp_ok($capacity, '>=', $tiny->[1], "$tiny->[0]: room for $capacity");
    is($t->status->{free}, $capacity, 'all free');

    $c = $t->connect;
    $c->request(POST => '/in', { body => '{}', close => 1,
        headers => [ 'X-Id' => 'kept', 'X-Backend' => 'hold=kept' ] });
    $t->wait_for(sub { $t->status->{in_flight} == 1 }, 5, 'one in flight');

    # (more than it holds, over one connection)
    my $k = $t->connect;
    for my $i (1 .. $capacity + 100) {
        $k->request(POST => '/in', { body => '{}', headers => [ 'X-Id' => "n$i" ] });
        $k->response->{status} == 202 or fail("answer $i");
    }
    my $s = $t->status;
    is($s->{done}, $capacity - 1, 'full of answers');
    is($s->{free}, 0, 'nothing free');
    is($s->{evictions}, 101, 'the oldest were given up');
    is($s->{in_flight}, 1, 'the one in flight was not');
    is(post($t, '/in', 'kept')->{status}, 409, 'it still is');
    ok(replayed(post($t, '/in', 'n' . ($capacity + 100))), 'the newest is there');
    ok(replayed(post($t, '/in', 'n110')), 'as is one in the middle');
    ok(!replayed(post($t, '/in', 'n1')), 'the oldest is not');

    # full of requests in flight: a backend that takes them and says nothing
    my $stuck = IO::Socket::UNIX->new(Local => $t->dir . '/stuck.sock',
        Listen => 4096) or die;
    my @held;
    for my $i (1 .. $capacity - 1) {
        my $h = $t->connect;
        $h->request(POST => '/stuck', { body => '{}', headers => [ 'X-Id' => "s$i" ]
            });
        push @held, $h;
    }
    $t->wait_for(sub { $t->status->{in_flight} == $capacity }, 20,
        'all to be in flight');
    is($t->status->{done}, 0, 'no answer left');
    my $seen = $t->seen;
    ok(!replayed(post($t, '/big', 'x')), 'no room: it passes') for 1, 2;
    is($t->seen, $seen + 2, 'each time, the backend decides');
    is($t->status->{no_room}, 2, 'counted by the zone');
    is($t->status('/big')->{decisions}{no_room}, 2, 'and by the location');
    is(post($t, '/stuck', 's1')->{status}, 409, 'those in flight still are');
    $t->let_go('kept');
    is($c->response->{status}, 202, 'the first one ends');
    ok(!replayed(post($t, '/in', 'room')), 'now another one finds room');
    ok(replayed(post($t, '/in', 'room')), 'and is kept');
    undef @held;
    close $stuck;
    unlike($t->error_log, qr/no memory/, 'nginx does not log it');
    $t->stop_backend;
    $t->finish;
}


# work keys do not take the place of answers

{
    $t = zone('32k');
    my $capacity = $t->status->{capacity};
    my $k = $t->connect;
    my $bad = 0;
    for my $i (1 .. 3 * $capacity) {
        $k->request(POST => '/work', { body => '{}', headers => [
            'X-Id' => "w$i", 'X-Work' => "w$i", 'X-Backend' => 'grant=2000' ]
            });
        $k->response->{status} == 202 or $bad++;
    }
    is($bad, 0, 'three times as many requests as there is room for');
    my $s = $t->status;
    is($s->{held}, int($capacity / 8), 'an eighth are work keys');
    is($s->{done}, $capacity - $s->{held} - $s->{free}, 'the rest answers');
    cmp_ok($s->{free}, '<=', 1, 'of all');
    ok(replayed(post($t, '/work', 'w' . (3 * $capacity - int($capacity / 2)),
        '', 'X-Work' => 'w' . (3 * $capacity - int($capacity / 2)))),
        'one of half a zone ago is there');
    $t->finish;
}


# more locations than a tiny zone can count for

{
    my $n = 24;
    $t = Interlock::Nginx->new(http => 'interlock_zone zone=z:32k;',
        server => join '', 'interlock_tenant demo; interlock_source s;'
            . 'location = /status { interlock_status; }',
            map { "location /l$_ { $gate fastcgi_pass backend; }" } 1 .. $n);
    $t->start;
    my $counted = @{ $t->status->{locations} };
    cmp_ok($counted, '<', $n, "counts for $counted of $n");
    cmp_ok($counted, '>', 0, 'for some');
    my @told = $t->error_log =~ /has no room for the counters of location "(\S+)"/g;
    is(@told, $n - $counted, 'names the others');
    post($t, $told[0], 'a');
    ok(replayed(post($t, $told[0], 'a')), 'which work all the same');
    is(post($t, $told[0], 'x' x 2000)->{status}, 400, 'and refuse');
    is($t->status->{refusals}[0]{reason}, 'idempotency-key-invalid',
        'which is shown');
    $t->finish;
}

done_testing();
