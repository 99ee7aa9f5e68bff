# A flood of forged requests and one of good ones with ever new keys, at once,
# through a zone that holds a fraction of them: what is in flight stays, no
# request gets another one's answer, and memory is flat.
#
# INTERLOCK_FULL (make soak): 2,000,000 of each on a zone of 16 MB, and a zone
# of a million entries that is full.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Digest::SHA qw(hmac_sha256_hex);
use Interlock::Nginx;
use Test::More;
use Time::HiRes qw(sleep time);

my $FULL = $ENV{INTERLOCK_FULL};
my $N = $FULL ? 2_000_000 : 60_000;     # of each
my $CLIENTS = 2;                        # of each
my $PIPE = 64;                          # requests under way on a connection
my $EVERY = 500;                        # of these one comes twice
my $STUCK = 64;

my $BODY = '{"some":"body"}';
my $GOOD = 'sha256=' . hmac_sha256_hex($BODY, 's3cret');
my $FORGED = 'sha256=' . hmac_sha256_hex($BODY, 'guess');

# The backend of the flood is nginx, too: it makes a job of each request and
# is never the slow part.
my $SERVERS = <<'END';
    map $request_id $job {
        ~^(........)(....).(...).(...)(............)$ $1-$2-7$3-8$4-$5;
    }
    upstream fast { server unix:%%DIR%%/fast.sock; keepalive 64;
        keepalive_requests 10000; }
    server {
        listen unix:%%DIR%%/fast.sock;
        keepalive_requests 1000000000;
        location / {
            add_header Interlock-Decision accepted always;
            add_header Interlock-Answer
                "1;202;accepted;queued;-;1;$job;-;-" always;
            add_header Interlock-Done-For 86400 always;
            add_header Interlock-Hold 1000 always;
            default_type application/json;
            return 202 '{"job_id":"$job"}';
        }
        location = /seen { stub_status; }
    }
END

sub nginx {
    my ($size) = @_;
    my $gate = 'interlock zone=z; interlock_kind k; interlock_source s;'
        . 'interlock_verify github secret=secrets/g; interlock_wait 50ms;'
        . 'interlock_idempotency_key $http_x_github_delivery;';
    my $t = Interlock::Nginx->new(workers => 2, patience => 3600,
        http => "interlock_zone zone=z:$size in_flight=2h;",
        servers => $SERVERS, server => <<"END");
        keepalive_requests 1000000000;
        interlock_tenant demo;
        location /in {
            error_log logs/flood.log crit;
            $gate
            interlock_work_key flood \$http_x_github_delivery;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_pass http://fast;
        }
        location /stuck { $gate fastcgi_read_timeout 1h;
            fastcgi_pass backend; }
        location = /status { interlock_status; }
END
    $t->secret(g => "s3cret\n");
    return $t->start;
}

# One client: n requests with keys PREFIX-1 to PREFIX-n, each EVERYth twice;
# counts of { status => n } and of replays.
sub flood {
    my ($t, $prefix, $n, $signature, $every) = @_;

    my $c;
    my $head = "POST /in HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
        . length($BODY) . "\r\nX-Hub-Signature-256: $signature\r\n"
        . 'X-GitHub-Delivery: ';
    my (%count, $next);
    my $sent = 0;

    for ($next = 1; $next <= $n; ) {
        my ($text, $want) = ('', 0);

        # (a connection's own memory grows a little with its requests, as it
        # does without the module)
        $c = $t->connect if !$c || $sent > 10_000;
        $sent = 0 if $sent > 10_000;
        while ($want < $PIPE && $next <= $n) {
            my $request = "$head$prefix-$next\r\n\r\n$BODY";
            my $times = $every && $next % $every == 0 ? 2 : 1;
            $text .= $request x $times;
            $want += $times;
            $sent += $times;
            $next++;
        }
        $c->send($text);
        while ($want) {
            if ($c->{buf} =~ /\A(HTTP\/1\.1 (\d+).*?\r\n\r\n)/s) {
                my ($h, $status) = ($1, $2);
                my ($len) = $h =~ /^content-length: (\d+)/mi or die $h;
                if (length $c->{buf} >= length($h) + $len) {
                    $count{$status}++;
                    $count{replayed}++ if $h =~ /^Idempotency-Replayed: true/m;
                    $count{skipped}++ if $h =~ /^Interlock-Decision: skipped/m;
                    substr $c->{buf}, 0, length($h) + $len, '';
                    $want--;
                    next;
                }
            }
            $c->more or die "$prefix: no answer at $next";
        }
    }
    return \%count;
}

# Several at once; the sums of their counts.
sub floods {
    my ($t, @jobs) = @_;
    my (@pids, @sum);
    for my $k (0 .. $#jobs) {
        my $pid = fork // die;
        if (!$pid) {
            my $count = eval { flood($t, @{ $jobs[$k] }) } // { died => 1 };
            $t->write_file("count$k", join ' ', %$count);
            POSIX::_exit(0);
        }
        push @pids, $pid;
    }
    waitpid $_, 0 for @pids;
    for my $k (0 .. $#jobs) {
        my %count = split ' ', $t->slurp("count$k");
        push @sum, \%count;
    }
    return @sum;
}

sub add {
    my %sum;
    for my $c (@_) { $sum{$_} += $c->{$_} for keys %$c }
    return \%sum;
}

# What the workers have for themselves, in kB; shared memory is not in it.
sub memory {
    my ($t) = @_;
    my $sum = 0;
    for my $pid ($t->workers) {
        open my $f, '<', "/proc/$pid/status" or next;
        $sum += (join '', <$f>) =~ /^RssAnon:\s+(\d+)/m ? $1 : 0;
    }
    return $sum;
}

# Requests that this nginx has had, in front and as the backend.
sub seen {
    my ($t) = @_;
    require IO::Socket::UNIX;
    my $s = IO::Socket::UNIX->new(Peer => $t->dir . '/fast.sock') or die $!;
    print $s "GET /seen HTTP/1.0\r\n\r\n";
    my $text = do { local $/; <$s> };
    return ($text =~ /^ \d+ \d+ (\d+)/m)[0];
}

sub stuck {
    my ($t, $k) = @_;
    return (POST => '/stuck', { body => $BODY, close => 1, headers => [
        'X-Hub-Signature-256' => $GOOD, 'X-GitHub-Delivery' => "stuck$k",
        'X-Backend' => 'hold=stuck' ] });
}


my $t = nginx($FULL ? '16m' : '1m');
my $capacity = $t->status->{capacity};
note("capacity $capacity, $N forged and $N good");
cmp_ok($capacity, '<', $N, 'the zone is smaller than the flood');

my @held = map { my $c = $t->connect; $c->{timeout} = 60;
    $c->request(stuck($t, $_)); $c } 1 .. $STUCK;
$t->wait_for(sub { $t->status->{in_flight} == $STUCK }, 20,
    'those in flight');

# forged ones alone: the zone does not change at all
my ($sum) = floods($t, [ 'x', 2000, $FORGED ]);
is_deeply($sum, { 401 => 2000 }, 'forged: refused');
my $s = $t->status;
is("@{$s}{qw(in_flight done held free)}", join(' ', $STUCK, 0, 0,
    $capacity - $STUCK), 'and leave nothing in the zone');

# enough of both that everything is in use that will be
my $warm = $FULL ? 50_000 : 10_000;
floods($t, [ 'wf', $warm, $FORGED ], [ 'wg', $warm, $GOOD, $EVERY ]);
my $before = { %{ $t->status('/in') } };
my $seen = seen($t);
my $kb = memory($t);
my $begun = time;

my $each = $N / $CLIENTS;
my @sum = floods($t, (map { [ "f$_", $each, $FORGED ] } 1 .. $CLIENTS),
    (map { [ "g$_", $each, $GOOD, $EVERY ] } 1 .. $CLIENTS));
my $took = time - $begun;
my $after = memory($t);
my $repeats = $CLIENTS * int($each / $EVERY);

is_deeply(add(@sum[ 0 .. $CLIENTS - 1 ]), { 401 => $N }, 'all forged: 401');
is_deeply(add(@sum[ $CLIENTS .. 2 * $CLIENTS - 1 ]),
    { 202 => $N + $repeats, replayed => $repeats },
    'all good: 202, and a replay for each repeat, none else');
is(seen($t) - $seen, 2 * $N + $repeats + $N + 1,
    'the backend saw each good one once');

my $l = $t->status('/in');
my %d = map { $_ => $l->{decisions}{$_} - $before->{decisions}{$_} }
    keys %{ $l->{decisions} };
is($d{forwarded}, $N, 'forwarded');
is($d{duplicate}, $repeats, 'duplicates: the repeats');
is($d{rejected}, $N, 'rejected: the forged');
is_deeply([ grep { $d{$_} } grep { !/^(?:forwarded|duplicate|rejected)$/ }
    keys %d ], [], 'nothing else');

$s = $t->status;
is($s->{in_flight}, $STUCK, 'those in flight were not given up');
is($s->{expired_in_flight}, 0, 'nor ended by time');
is($s->{no_room}, 0, 'there was room for each');
is($s->{rebuilds}, 0, 'no rebuild');
is($s->{in_flight} + $s->{done} + $s->{held} + $s->{free}, $capacity,
    'entries add up');
cmp_ok($s->{free}, '<', $capacity / 50, 'the zone is full');
cmp_ok($s->{evictions}, '>', 0, 'so that answers were given up');
SKIP: {
    skip 'a sanitizer keeps what was freed', 1 if $t->sanitizer_env;
    cmp_ok($after, '<', $kb + 1024, "memory is flat: $kb kB, then $after kB");
}
diag(sprintf '%d forged and %d good in %.1f s: %d/s; workers %d kB, then %d kB',
    $N, $N + $repeats, $took, (2 * $N + $repeats) / $took, $kb, $after)
    if $FULL;

# each of those in flight is still itself
my $res = $t->http(stuck($t, $STUCK));
is($res->{status}, 503, 'a repeat of one in flight: still in flight');
$t->let_go('stuck');
my @answer = map { $_->response } @held;
is(scalar(grep { $_->{status} == 202 } @answer), $STUCK, 'all are answered');
my @bad = grep { my $r = $t->http(stuck($t, $_));
    $r->{body} ne $answer[ $_ - 1 ]{body} } 1 .. $STUCK;
is("@bad", '', 'and repeats have their answers');
$t->finish;


# a million entries

SKIP: {
    my ($free) = join('', do { open my $f, '<', '/proc/meminfo'; <$f> })
        =~ /^MemAvailable:\s+(\d+)/m;
    skip 'not enough memory', 1 if $free < 400_000;

    $t = nginx('126m');
    $capacity = $t->status->{capacity};
    cmp_ok($capacity, '>=', 1_000_000, "126m: $capacity entries");
    my $some = $FULL ? $capacity + 1000 : 5000;
    my @c = floods($t, map { [ "m$_", int($some / 4), $GOOD, $EVERY ] } 1 .. 4);
    is(add(@c)->{202}, 4 * int($some / 4) + 4 * int(int($some / 4) / $EVERY),
        "$some requests");
    is(add(@c)->{replayed}, 4 * int(int($some / 4) / $EVERY), 'and repeats');
    $s = $t->status;
    is($s->{in_flight} + $s->{done} + $s->{held} + $s->{free}, $capacity,
        'entries add up');
    is($s->{evictions} > 0, !!$FULL, 'full, or far from it');

    # a reload keeps them, a crash forgets them, and both at once
    $begun = time;
    $t->reload;
    is($t->status->{done}, $s->{done}, 'a reload keeps them');
    my ($c) = flood($t, 'm1', 10, $GOOD);
    is($c->{replayed} // 0, $FULL ? 0 : 10,
        'the oldest are there unless they were given up');
    $t->finish;
}

done_testing();
