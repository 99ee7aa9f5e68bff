package Cases::Hold;

# What is held: parked requests, leases, effects; and what grows.

use strict;
use warnings;

use IO::Socket::INET;
use Time::HiRes qw(sleep time);

use Bench qw(cluster_cpu cpu load median pids_of request rss seconds skip
    together unique);
use Cases::Accept;
use Cases::Work;

# parked: memory of each that waits for work
sub parked {
    my ($w) = @_;

    my $i = $w->instance;
    my $n = 8000;
    my $files = POSIX::sysconf(POSIX::_SC_OPEN_MAX());
    skip("only $files files a process") if $files < 2 * $n + 500;
    $w->put_kind($i, 'bench-never', { overlap => 'allow' });

    my $request = Cases::Work::claim_request($i, 'bench-never', 1, 30);
    my $parked = sub { $i->metrics->{interlock_parked_requests} // 0 };
    my $backend = $i->backend_pid;
    my @nginx = pids_of($i->nginx_pid);
    my ($before, $nginx) = (rss($backend), rss(@nginx));
    my @socks;
    my $from = time;
    for (1 .. $n) {
        my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
            PeerPort => $i->port) or die "connect: $!\n";
        syswrite $s, $request;
        push @socks, $s;
    }
    $i->wait_for(sub { $parked->() >= $n }, 25, "$n to be parked");
    my $secs = time - $from;
    my %m = (ops => $n, rate => $n / $secs,
        kb_each => (rss($backend) - $before) / $n,
        nginx_kb_each => (rss(@nginx) - $nginx) / $n);
    close $_ for @socks;
    $i->wait_for(sub { $parked->() < 100 }, 30, 'them to be gone');
    return { interlock => \%m };
}

# owners(world, kind, n): a file of that many owner tokens
sub owners {
    my ($w, $i, $kind, $n) = @_;

    $w->put_kind($i, $kind, { overlap => 'allow', lease_seconds => 3600,
        max_queued => 10_000_000 });
    $w->fill($i, $kind, $n);
    my @tokens;
    while (@tokens < $n) {
        my $res = $i->http(POST => '/v1/leases', { token => 'worker', body =>
            { worker => 'bench', kinds => [$kind], max => 100, wait => 5 } });
        my @some = map { $_->{owner_token} } @{ $res->{json}{leases} // [] };
        die 'only ' . @tokens . " leases: $res->{status}\n" unless @some;
        push @tokens, @some;
    }
    return $w->file('tokens', join '', map { "$_\n" } @tokens);
}

sub renew {
    my ($w) = @_;

    my $i = $w->instance;
    my $tokens = $w->{renew} //= owners($w, $i, 'bench-renew', 2000);
    my @nginx = pids_of($i->nginx_pid);
    my $postgres = $i->pid('postgres');
    my @before = (cpu(@nginx), cpu($i->backend_pid), cluster_cpu($postgres));
    my $m = load($w, { c => 128, l => $tokens }, $i->port,
        request(POST => '/v1/lease/renew',
            { Authorization => 'Bearer {LINE}' }, ''));
    my @after = (cpu(@nginx), cpu($i->backend_pid), cluster_cpu($postgres));
    @$m{qw(nginx_us backend_us db_us)} = map {
        ($after[$_] - $before[$_]) / $m->{ops} * 1e6 } 0 .. 2;
    return $m;
}

# egress: the same call with the ledger and without, four at a time
sub egress {
    my ($path) = @_;

    return sub {
        my ($w) = @_;
        my $i = $w->instance;
        my $edge = $w->edge;
        my $tokens = $w->{egress} //= owners($w, $i, 'bench-effects', 256);
        my $run = unique();
        my $calls = sub {
            my $m = $i->metrics;
            my $sum = 0;
            $sum += $m->{qq(interlock_batch_size_count{lane="$_"})} // 0
                for qw(begin outcome read);
            return $sum;
        };
        my $before = $calls->();
        my $m = load($w, { c => 4, l => $tokens }, $edge->{port},
            request(POST => $path, { 'Interlock-Owner-Token' => '{LINE}',
                'Interlock-Effect' => "$run-%%%%%%%%%%%%" },
                '{"amount":5}'));
        $m->{calls_each} = ($calls->() - $before) / $m->{ops};
        return $m;
    };
}

# What there is of interlockd and of the tables that every call touches, in
# turn with ten minutes of jobs that come and go
sub soak {
    my ($w) = @_;

    skip('it takes long: BENCH_SOAK=1') unless $ENV{BENCH_SOAK};
    my $i = $w->instance;
    my $d = 60 * ($ENV{BENCH_SOAK_MINUTES} || 10);
    my $run = unique();
    # a queue that grows would be no matter of what is left behind
    my $rate = int(Cases::Work::flow($w, 10)->{rate} / 2);
    $w->put_kind($i, 'bench-soak', { overlap => 'allow',
        max_queued => 10_000_000, lease_seconds => 300 });

    my $sizes = sub {
        my %size = map { $_->[0] => $_->[1] } $i->sql("select relname,
            pg_total_relation_size(c.oid) from pg_class c
            join pg_namespace n on n.oid = relnamespace
            where nspname = 'interlock' and relkind = 'r'");
        return \%size;
    };
    my ($watched, $in, $out) = together(
        sub {
            my @all;
            for my $turn (1 .. 30) {
                sleep $d / 30;
                push @all, { rss => rss($i->backend_pid),
                    tables => $sizes->() };
            }
            return { all => \@all };
        },
        sub { load($w, { c => 32, d => $d, r => $rate, k => 10_000 },
            $i->port, Cases::Accept::submission($i, 'bench-soak',
                "$run:%%%%%%%%%%%%")) },
        sub { load($w, { c => 32, w => 2, d => $d, i => $d }, $i->port,
            Cases::Work::claim_request($i, 'bench-soak', 50, 1),
            Cases::Work::complete_request()) });

    my @all = @{ $watched->{all} };
    my $third = @all / 3;
    my $part = sub {
        my ($n) = @_;
        my @some = @all[ $n * $third .. ($n + 1) * $third - 1 ];
        my %m = (rss_kb => median(map { $_->{rss} } @some),
            rate => $out->{rate});
        for my $table (qw(jobs works leases)) {
            $m{"${table}_kb"} = median(map { $_->{tables}{$table} } @some)
                / 1024;
        }
        $m{all_kb} = median(map { my $t = $_->{tables}; my $sum = 0;
            $sum += $_ for values %$t; $sum } @some) / 1024;
        return \%m;
    };
    return { middle => $part->(1), interlock => $part->(2) };
}

sub cases {
    return ({
        name => 'parked',
        title => '8,000 requests that wait for work',
        once => \&parked,
        rows => [ { of => 'kb_each', most => 16 }, { of => 'nginx_kb_each' },
            { of => 'rate' } ],
    }, {
        name => 'renew',
        title => 'renewals of 2,000 leases, 128 connections',
        sides => [ interlock => \&renew ],
        rows => [ { of => 'rate', least => 20_000 }, { of => 'nginx_us' },
            { of => 'backend_us' }, { of => 'db_us' },
            { of => 'client_cores' } ],
    }, {
        name => 'egress',
        title => 'a call through the ledger, 4 at a time',
        sides => [
            'proxy_pass' => egress('/direct/charges'),
            interlock => egress('/out/charges'),
        ],
        rows => [ { of => 'calls_each', most => 2 },
            { of => 'p50_ms', minus => 'proxy_pass', most => 2 },
            { of => 'p99_ms', minus => 'proxy_pass' } ],
    }, {
        name => 'soak',
        title => 'ten minutes of jobs, last third to the middle one',
        once => \&soak,
        rows => [ { of => 'rss_kb', to => 'middle', most => 1.05 },
            (map { { of => "${_}_kb", to => 'middle', most => 1.1 } }
                qw(jobs works leases)),
            { of => 'all_kb', to => 'middle' }, { of => 'rate' } ],
    });
}

1;
