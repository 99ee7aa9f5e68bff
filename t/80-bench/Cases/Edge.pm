package Cases::Edge;

# A delivery that was delivered before: a thousand keys in turn from 32
# connections, one nginx worker on one core, wrk on another.

use strict;
use warnings;

use Digest::SHA qw(hmac_sha256_hex);

use Bench qw(cpu request seconds wrk);
use Interlock::HTTP;

my $keys = 1000;

# A body of that many bytes
sub body {
    my ($n) = @_;

    my $head = '{"id":"evt_1","type":"order.paid","data":"';
    return $head . 'x' x ($n - length($head) - 2) . '"}';
}

# The same until they are that many seconds old: where nothing is verified the
# edge remembers answers for a minute.
sub requests {
    my ($w, $path, $body, $age) = @_;

    my $i = $w->instance;
    my $side = "$path " . length $body;
    my $run = $w->{run}{$side};
    if (!$run || $run->{at} < time - ($age // 30)) {
        $run = $w->{run}{$side} = { at => time, id => Bench::unique() };
        delete $w->{warm}{$side};
    }
    return [ map { request(POST => $path, {
        'Idempotency-Key' => "$run->{id}-" . length($body) . "-$_",
        'X-Signature' => 'sha256=' . hmac_sha256_hex($body, $i->secret('hmac')),
        Authorization => 'Bearer ' . $i->token('submit') }, $body) }
        1 .. $keys ];
}

# side(path, bytes): one measurement of that location
sub side {
    my ($path, $bytes, $modules) = @_;

    return sub {
        my ($w) = @_;

        $w->need_modules if $modules;
        my $edge = $w->edge;
        my $all = requests($w, $path, body($bytes));
        my $opt = { core => $w->cores > 1 ? 1 : 0 };
        # the first of each key, however slow this machine is just now
        unless ($w->{warm}{"$path $bytes"}++) {
            1 while wrk($w, $edge->{port}, $all, { %$opt, d => 1, c => 4 })
                ->{ops} < 2 * $keys;
        }
        my $before = cpu($edge->{pid});
        my $backend = cpu($w->instance->backend_pid);
        my $m = wrk($w, $edge->{port}, $all, $opt);
        $m->{cpu_us} = (cpu($edge->{pid}) - $before) / $m->{ops} * 1e6;
        $m->{backend_us} = (cpu($w->instance->backend_pid) - $backend)
            / $m->{ops} * 1e6;
        return $m;
    };
}

# The same, having made sure that the edge alone answered
sub ours {
    my ($path, $bytes) = @_;

    my $measure = side($path, $bytes);
    return sub {
        my ($w) = @_;

        my $alone = sub {
            my $res = Interlock::HTTP::raw($w->edge->{port},
                request(GET => '/status', { Connection => 'close' }));
            my ($n) = $res->{text} =~ /^interlock_edge_requests_total
                \{location="\Q$path\E",decision="duplicate"\}\ (\d+)/mx;
            return $n // 0;
        };
        requests($w, $path, body($bytes), 20);
        $measure->($w) unless $w->{warm}{"$path $bytes"};
        my $before = $alone->();
        my $m = $measure->($w);
        my $n = $alone->() - $before;
        die "only $n of $m->{ops} were answered by the edge alone\n"
            if $n < $m->{ops};
        my $log = Interlock::Test::slurp($w->tmp . '/edge/error.log');
        die "nginx: $1\n" if $log =~ /(\[(?:alert|emerg|crit)\].*)/;
        return $m;
    };
}

sub cases {
    my @plain = map { my ($name, $bytes) = @$_; {
        name => "edge-$name",
        title => "edge duplicate, key in header, $bytes B",
        sides => [
            interlock => ours('/in/plain', $bytes),
            'return 202' => side('/return', $bytes),
            'lua_shared_dict' => side('/lua', $bytes, 1),
            'proxy_cache' => side('/cache', $bytes),
            'with audit' => ours('/in/recorded', $bytes),
        ],
        rows => [
            { of => 'rate', to => 'return 202', least => 0.80 },
            { of => 'cpu_us', to => 'return 202', most => 1.35 },
            { of => 'rate', to => 'lua_shared_dict', least => 1 },
            { of => 'cpu_us', to => 'lua_shared_dict', most => 1 },
            { of => 'rate', to => 'proxy_cache', least => 1 },
            { of => 'client_cores', to => 'return 202' },
            { side => 'with audit', of => 'rate', to => 'return 202' },
            { side => 'with audit', of => 'cpu_us', to => 'return 202' },
            { side => 'with audit', of => 'backend_us' },
        ],
    } } [ '330', 330 ], [ '1k', 1024 ];

    return (@plain, {
        name => 'edge-verified',
        title => 'edge duplicate, HMAC-SHA256 verified, 330 B',
        sides => [
            interlock => ours('/in/verified', 330),
            'return 202' => side('/return', 330),
            'lua + HMAC' => side('/lua-verified', 330, 1),
            'njs + HMAC' => side('/njs-verified', 330, 1),
        ],
        rows => [
            { of => 'rate', to => 'return 202', least => 0.65 },
            { of => 'cpu_us', to => 'return 202' },
            { of => 'rate', to => 'lua + HMAC', least => 1 },
            { of => 'rate', to => 'njs + HMAC', least => 1 },
        ],
    });
}

1;
