package Bench;

# What the cases measure with: load generators, CPU of processes, medians.
# A measurement is a hash of numbers; `rate` is operations a second, `..._ms`
# latencies, `..._us` CPU microseconds an operation, `..._cores` how many
# cores a process kept busy.

use strict;
use warnings;

use Exporter qw(import);
use JSON::PP ();
use Time::HiRes qw(time);

use Interlock::Test;

our @EXPORT_OK = qw(median skip seconds cpu cluster_cpu request unique load
    wrk pgbench percentile rss pids_of together);

my $json = JSON::PP->new->utf8;
my $tick = POSIX::sysconf(POSIX::_SC_CLK_TCK());

# skip(reason): this side, or this case, cannot be measured here
sub skip { die "skip: $_[0]\n" }

# how long one measurement of one side takes
sub seconds { return $ENV{BENCH_SECONDS} || 3 }

sub median {
    my @v = sort { $a <=> $b } grep { defined } @_;
    return undef unless @v;
    return @v % 2 ? $v[@v / 2] : ($v[@v / 2 - 1] + $v[@v / 2]) / 2;
}

sub percentile {
    my ($p, @v) = @_;

    @v = sort { $a <=> $b } @v;
    my $n = int($p * @v);
    return $v[ $n > $#v ? $#v : $n ];
}

my $unique = 0;
sub unique { return sprintf '%x-%x-%x', $$, int(time), $unique++ }


# --- processes -------------------------------------------------------------

# cpu(pids): seconds of CPU that these have used, with all their threads
sub cpu {
    my $ns = 0;
    for my $pid (@_) {
        for my $file (glob "/proc/$pid/task/*/schedstat") {
            my ($run) = split ' ', Interlock::Test::slurp($file) // '';
            $ns += $run // 0;
        }
    }
    return $ns / 1e9;
}

# cluster_cpu(pid of the postmaster): with its children, ended ones too
sub cluster_cpu {
    my ($postmaster) = @_;

    my $sum = 0;
    for my $pid (map { m{(\d+)$} } glob '/proc/[0-9]*') {
        my $stat = Interlock::Test::slurp("/proc/$pid/stat") or next;
        my @f = split ' ', $stat =~ s/^.*\) //sr;
        next unless $pid == $postmaster || $f[1] == $postmaster;
        $sum += $f[11] + $f[12];
        $sum += $f[13] + $f[14] if $pid == $postmaster;
    }
    return $sum / $tick;
}

# pids_of(master): its children, nginx's workers
sub pids_of {
    my ($master) = @_;

    return grep {
        my $stat = Interlock::Test::slurp("/proc/$_/stat") // '';
        ((split ' ', $stat =~ s/^.*\) //sr)[1] // 0) == $master;
    } map { m{(\d+)$} } glob '/proc/[0-9]*';
}

# resident memory in KB
sub rss {
    my $kb = 0;
    for (@_) {
        my ($n) = (Interlock::Test::slurp("/proc/$_/status") // '')
            =~ /^VmRSS:\s+(\d+)/m;
        $kb += $n // 0;
    }
    return $kb;
}

# output(seconds, command): what it prints, and its CPU seconds
sub output {
    my ($timeout, @cmd) = @_;

    my @before = times;
    my ($code, $out, $err) = Interlock::Test::run(\@cmd,
        timeout => $timeout);
    my @after = times;
    die "$cmd[0] ended with $code: $err$out\n" if $code;
    warn $err if $err ne '' && $ENV{BENCH_VERBOSE};
    return ($out, $after[2] + $after[3] - $before[2] - $before[3]);
}


# together(subs): all at once, a process each; what each answered
sub together {
    my @subs = @_;

    my @children = map {
        my $sub = $_;
        pipe my $r, my $w or die "pipe: $!";
        my $pid = fork() // die "fork: $!";
        if (!$pid) {
            close $r;
            my $m = eval { $sub->() };
            print $w $json->encode($m // { failed => "$@" });
            close $w;
            POSIX::_exit(0);
        }
        close $w;
        [ $pid, $r ];
    } @subs;

    my @all;
    for (@children) {
        my ($pid, $r) = @$_;
        my $text = do { local $/; <$r> };
        waitpid $pid, 0;
        push @all, $json->decode($text || '{"failed":"a process died"}');
    }
    die $_->{failed} for grep { exists $_->{failed} } @all;
    return @all;
}


# --- generators ------------------------------------------------------------

# request(METHOD, path, { header => value }, body): as bytes
sub request {
    my ($method, $path, $headers, $body) = @_;

    my %h = (Host => '127.0.0.1', %{ $headers // {} });
    $body = $json->canonical->encode($body) if ref $body;
    if (defined $body) {
        $h{'Content-Length'} = length $body;
        $h{'Content-Type'} //= 'application/json';
    }
    return "$method $path HTTP/1.1\r\n"
        . join('', map { "$_: $h{$_}\r\n" } sort keys %h) . "\r\n"
        . ($body // '');
}

# load(world, { c, d, r, … as load.c's options }, port, request texts…)
sub load {
    my ($w, $opt, $port, @texts) = @_;

    my %o = (d => seconds(), %$opt);
    my @files = map { $w->file('request', $_) } @texts;
    my $allowed = delete $o{errors} // 0;
    my ($out) = output($o{d} + 90, $w->tool('load'),
        (map { ("-$_", $o{$_}) } sort keys %o), $port, @files);
    unlink @files;
    my $m = $json->decode($out);
    die "load: $m->{errors} of $m->{ops} requests failed: "
        . $json->canonical->encode($m->{codes}) . "\n"
        if $m->{errors} > $allowed * $m->{ops};
    return $m;
}

# wrk(world, port, [requests in turn], { c, d, core }): requests are bytes
sub wrk {
    my ($w, $port, $requests, $opt) = @_;

    my $script = $w->file('wrk.lua', join '', "local all = {\n",
        (map { '"' . s/([^ !#-\[\]-~])/sprintf '\\%03d', ord $1/ger . "\",\n" }
            @$requests), "}\nlocal n = 0\n",
        "request = function()\n    n = n % #all + 1\n",
        "    return all[n]\nend\n");
    my @pin = defined $opt->{core} ? ('taskset', '-c', $opt->{core}) : ();
    my $d = $opt->{d} // seconds();
    my ($out, $cpu) = output($d + 60, @pin, 'wrk', '-t1',
        '-c' . ($opt->{c} // 32), "-d${d}s", '--latency', '-s', $script,
        "http://127.0.0.1:$port/");
    unlink $script;
    my ($ops) = $out =~ /(\d+) requests in/ or die "wrk says: $out\n";
    my ($rate) = $out =~ m{^Requests/sec:\s+([\d.]+)}m;
    die "wrk: $1\n" if $out =~ /^\s*((?:Non-2xx|Socket errors).*)/m;
    my %ms = map { $_ => undef } 50, 99;
    for my $p (keys %ms) {
        $ms{$p} = $1 * ($2 eq 'us' ? 0.001 : $2 eq 'ms' ? 1 : 1000)
            if $out =~ /^\s+$p%\s+([\d.]+)(us|ms|s)/m;
    }
    return { ops => $ops + 0, rate => $rate + 0, p50_ms => $ms{50},
        p99_ms => $ms{99}, client_cores => $cpu / $d };
}

# pgbench(world, instance, database, script text, { c, j, t, user })
sub pgbench {
    my ($w, $i, $database, $script, $opt) = @_;

    my $file = $w->file('bench.sql', $script);
    my ($host) = $i->dsn =~ /host=(\S+)/;
    # connecting counts as time, though not in the rate
    my @turns = $opt->{t} ? ('-t', $opt->{t})
        : ('-T', seconds() + int($opt->{c} / 64));
    my ($out, $cpu) = output(600, $w->pg_bin('pgbench'), '-n', '-M',
        'prepared', '-c', $opt->{c} // 1, '-j', $opt->{j} // 1, @turns, '-f',
        $file, '-h', $host, '-U', $opt->{user} // 'interlock_admin',
        $database);
    unlink $file;
    my ($ops) = $out =~ /transactions actually processed: (\d+)/;
    my ($rate) = $out =~ /^tps = ([\d.]+)/m or die "pgbench says: $out\n";
    my ($failed) = $out =~ /failed transactions: (\d+)/;
    die "pgbench: $failed transactions failed\n" if $failed;
    return { ops => $ops + 0, rate => $rate + 0,
        client_cores => $cpu * $rate / $ops };
}

1;
