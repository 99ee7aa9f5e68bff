package Cases::Work;

# Claims and completions: as many as can be, one that is waited for, with a
# long queue, and beside a snapshot or a hot key that is in the way.

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use Time::HiRes qw(sleep time);

use Bench qw(cluster_cpu cpu load median percentile pgbench pids_of request
    seconds together unique);
use Cases::Accept;
use Interlock::HTTP;

my $at_once = 50;
my $turns = 200;
my $million = $ENV{BENCH_MILLION} || 1_000_000;

sub claim_request {
    my ($i, $kind, $max, $wait) = @_;

    return request(POST => '/v1/leases',
        { Authorization => 'Bearer ' . $i->token('worker') },
        { worker => 'bench', kinds => [$kind], max => $max,
          wait => $wait // 0 });
}

# all that one claim got in one request: load.c -b makes its list longer
sub completions_request {
    my ($i) = @_;

    return request(POST => '/v1/lease/batch', {
        Authorization => 'Bearer ' . $i->token('worker'),
        'Content-Type' => 'application/json' })
        . '{"calls":[{"owner_token":"{LINE}","call":"complete",'
        . '"result":{"ok":true}}]}';
}

sub complete_request {
    return request(POST => '/v1/lease/complete',
        { Authorization => 'Bearer {LINE}' }, '{"result":{"ok":true}}');
}

# How many jobs one measurement takes
sub jobs { return 10_000 * seconds() }

# No kind is claimed by two cases: what one leaves, the other would find.
sub over_http {
    my ($w, $single) = @_;

    my $i = $w->instance;
    $w->put_kind($i, 'bench-work', { overlap => 'allow',
        max_queued => 10_000_000, lease_seconds => 300 });
    $w->fill($i, 'bench-work', jobs());
    my @nginx = pids_of($i->nginx_pid);
    my @backend = ($i->backend_pid);
    my $postgres = $i->pid('postgres');
    my @before = (cpu(@nginx), cpu(@backend), cluster_cpu($postgres));
    # it ends when a claim finds nothing, which takes no second
    my $m = load($w, { c => $single ? 64 : 8, w => 2, d => 600, i => 0,
        $single ? () : (b => $at_once) }, $i->port,
        claim_request($i, 'bench-work', $at_once),
        $single ? complete_request() : completions_request($i));
    my @after = (cpu(@nginx), cpu(@backend), cluster_cpu($postgres));
    die "$m->{ops} of " . jobs() . " were completed\n"
        unless $m->{ops} == jobs();
    @$m{qw(nginx_us backend_us db_us)} = map {
        ($after[$_] - $before[$_]) / $m->{ops} * 1e6 } 0 .. 2;
    return $m;
}

# The same by the SQL functions alone, as the role that interlockd has: a
# commit to claim, a commit to complete
sub in_sql {
    my ($w) = @_;

    my $i = $w->instance;
    my $n = jobs();
    $w->put_kind($i, 'bench-sql', { overlap => 'allow',
        max_queued => 10_000_000, lease_seconds => 300 });
    $w->fill($i, 'bench-sql', $n);
    my $turns = $n / $at_once;
    my $tenant = $i->psql(q{select tenant from interlock.tenant_find('demo')});
    my $all = sub { "array_fill($_[0], array[cardinality(:job::uuid[])])" };
    my $before = cluster_cpu($i->pid('postgres'));
    my $m = pgbench($w, $i, 'interlock', <<"END", { c => 1, t => $turns,
select array_agg(job_id) as job, array_agg(attempt_id) as attempt, array_agg(fence) as fence from interlock.claim(array[gen_random_uuid()], array[$tenant], array['bench'], array['bench-sql'], array[$at_once]) \\gset
select count(*) from interlock.finish(@{[ $all->($tenant) ]}, :job::uuid[], :attempt::uuid[], :fence::bigint[], @{[ $all->(q('complete'::text)) ]}, @{[ $all->(q('\\x01'::bytea)) ]}, @{[ $all->(q('{"ok": true}'::text)) ]}, @{[ $all->('null::text') ]}, @{[ $all->('null::bigint') ]}, @{[ $all->('null::bigint') ]}, @{[ $all->('null::text') ]}, @{[ $all->('null::boolean') ]}, @{[ $all->('null::text') ]}, @{[ $all->('null::text') ]}, @{[ $all->('null::int') ]});
END
        user => 'interlock_service' });
    my $left = $i->psql(q{select count(*) from interlock.jobs
        where kind = 'bench-sql'
        and status not in ('succeeded', 'failed', 'canceled')});
    die "$left jobs are left\n" if $left;
    $m->{db_us} = (cluster_cpu($i->pid('postgres')) - $before) / $n * 1e6;
    $_ *= $at_once for @$m{qw(ops rate)};
    return $m;
}

sub peer {
    my ($name, $mode, $amount) = @_;

    return sub { $_[0]->node($_[0]->instance, $name, $mode,
        ref $amount ? $amount->() : $amount) };
}


# --- one at a time ---------------------------------------------------------

# From before a job is sent until its worker, who waited, has it
sub wake {
    my ($w) = @_;

    my $i = $w->instance;
    $w->put_kind($i, 'bench-wake', { overlap => 'allow',
        lease_seconds => 300 });
    my $connect = sub { IO::Socket::INET->new(PeerAddr => '127.0.0.1',
        PeerPort => $i->port) // die "connect: $!" };
    my ($worker, $client) = ($connect->(), $connect->());
    my $claim = claim_request($i, 'bench-wake', 1, 25);
    my ($n, $cold) = (100 * seconds(), 20);
    my ($start, @ms, @ack, @tokens) = (time);

    for my $turn (1 .. $n + $cold) {
        # nginx closes a connection after so many requests
        ($worker, $client) = ($connect->(), $connect->())
            if $turn % 400 == 0;
        syswrite $worker, $claim;
        sleep 0.01;
        my $job = Cases::Accept::submission($i, 'bench-wake',
            unique() . ":$turn");
        my $from = time;
        syswrite $client, $job;
        my %got = ($worker => '', $client => '');
        my $select = IO::Select->new($worker, $client);
        my %at;
        while ($select->count) {
            for my $sock ($select->can_read(30)) {
                sysread $sock, $got{$sock}, 65536, length $got{$sock}
                    or die "closed\n";
                next unless @{ Interlock::HTTP::parse_responses($got{$sock},
                    0) };
                $at{$sock} = (time - $from) * 1000;
                $select->remove($sock);
            }
            die "no answer\n" if time - $from > 30;
        }
        my ($token) = $got{$worker} =~ /"owner_token":\s*"([^"]+)"/
            or die "no lease: $got{$worker}\n";
        push @tokens, $token;
        my @id = map { /"job_id":\s*"([^"]+)"/ } @got{ $worker, $client };
        die "the worker got another job\n" unless @id == 2
            && $id[0] eq $id[1];
        next if $turn <= $cold;
        push @ms, $at{$worker};
        push @ack, $at{$client};
    }
    my $secs = time - $start;
    my $lines = $w->file('tokens', join '', map { "$_\n" } @tokens);
    load($w, { c => 4, l => $lines, n => scalar @tokens, d => 60 },
        $i->port, complete_request());
    unlink $lines;
    return { ops => $n, rate => $n / $secs, p50_ms => percentile(0.5, @ms),
        p99_ms => percentile(0.99, @ms),
        ack_p50_ms => percentile(0.5, @ack) };
}

# Claims of one job each, one after the other, of a queue that was made so by
# $make the first time
sub claims {
    my ($kinds, $make) = @_;

    my $one = sub {
        my ($i) = @_;
        return request(POST => '/v1/leases',
            { Authorization => 'Bearer ' . $i->token('worker') },
            { worker => 'bench', kinds => $kinds, max => 1 });
    };
    return sub {
        my ($w) = @_;
        my $i = $w->instance;
        if (!$w->{queue}{"@$kinds"}++) {
            $make->($w, $i);
            load($w, { c => 1, n => 20, d => 600 }, $i->port, $one->($i));
        }
        my $before = cluster_cpu($i->pid('postgres'));
        my $m = load($w, { c => 1, n => $turns, d => 600 }, $i->port,
            $one->($i));
        $m->{db_us} = (cluster_cpu($i->pid('postgres')) - $before)
            / $m->{ops} * 1e6;
        return $m;
    };
}

sub queue_of {
    my ($kind, $n) = @_;

    return sub {
        my ($w, $i) = @_;
        $w->put_kind($i, $kind, { overlap => 'allow',
            max_queued => 10_000_000, lease_seconds => 3600 });
        # with what all rounds take of it
        $w->fill($i, $kind, $n + $turns * ($w->{rounds} + 1));
        $i->psql('vacuum analyze');
    };
}

# $n of the first kind behind a full limit, a few of the second one
sub blocked {
    my ($full, $free, $n) = @_;

    return sub {
        my ($w, $i) = @_;
        my $res = $i->http(PUT => "/v1/limits/$full", { token => 'operator',
            body => { capacity => 1 } });
        die "limit: $res->{status} $res->{body}\n"
            unless $res->{status} =~ /^2/;
        $w->put_kind($i, $full, { overlap => 'allow', priority => 100,
            max_queued => 10_000_000, lease_seconds => 3600,
            limits => [$full] });
        $w->fill($i, $full, 1);
        my $got = $i->http(POST => '/v1/leases', { token => 'worker', body =>
            { worker => 'holder', kinds => [$full], max => 1, wait => 10 } });
        die "not one is held\n" unless @{ $got->{json}{leases} // [] } == 1;
        $w->fill($i, $full, $n);
        queue_of($free, 1000)->($w, $i);
    };
}


# --- what is in the way ----------------------------------------------------

# Jobs of one's own through the whole queue, for that long: completions
sub flow {
    my ($w, $d) = @_;

    my $i = $w->instance;
    my $run = unique();
    $w->put_kind($i, 'bench-flow', { overlap => 'allow',
        max_queued => 10_000_000, lease_seconds => 300 });
    my ($in, $out) = together(
        sub { load($w, { c => 32, d => $d }, $i->port,
            Cases::Accept::submission($i, 'bench-flow',
                "$run:%%%%%%%%%%%%")) },
        sub { load($w, { c => 32, w => 2, d => $d, i => $d }, $i->port,
            claim_request($i, 'bench-flow', $at_once, 1),
            complete_request()) });
    $out->{accepted} = $in->{rate};
    return $out;
}

sub snapshot {
    my ($w) = @_;

    my $i = $w->instance;
    my $long = $ENV{BENCH_SNAPSHOT} || 60;
    my $part = $long < 10 ? $long : 10;
    flow($w, $part / 2);
    my %m = (before => flow($w, $part));
    my $psql = $w->spawn($w->tmp . '/snapshot', 'psql', '-XAtq', '-d',
        $i->dsn('admin'), '-c', 'begin isolation level repeatable read; '
        . 'select count(*) from pg_class; select pg_sleep(3600)');
    $i->wait_for(sub { $i->psql("select count(*) from pg_stat_activity
        where query like '%pg_sleep(3600)%' and backend_xmin is not null
        and pid <> pg_backend_pid()") }, 10, 'the snapshot');
    flow($w, $long - $part) if $long > $part;
    $m{interlock} = flow($w, $part);
    kill 'TERM', $psql;
    $i->psql("select pg_terminate_backend(pid) from pg_stat_activity
        where query like '%pg_sleep(3600)%' and pid <> pg_backend_pid()");
    return \%m;
}

# 10,000 keys get requests at a steady rate, and 200 clients others: of the
# same keys, or all of one.  Both together are half of what the machine can
# bear, or the ones would wait for the others' CPU.
sub beside {
    my ($hot) = @_;

    return sub {
        my ($w) = @_;
        my $i = $w->instance;
        my $run = $w->{cold} //= unique();
        my $full = $w->{bearable} //= Cases::Accept::http($w, $i,
            { c => 64 }, 'bench-hot')->{rate};
        my ($cold) = together(
            sub { load($w, { c => 64, r => int($full / 8), k => 10_000 }, $i->port,
                Cases::Accept::submission($i, 'bench-hot',
                    "$run:%%%%%%%%%%%%")) },
            sub { load($w, { c => 200, r => int($full * 3 / 8), k => 10_000 }, $i->port,
                Cases::Accept::submission($i, 'bench-hot', $hot
                    ? "$run:hot" : "$run:x:%%%%%%%%%%%%")) });
        return $cold;
    };
}

sub cases {
    my $many = $million;
    1 while $many =~ s/^(\d+)(\d{3})(?!\d)/$1,$2/;
    my $rows = [
        { of => 'p50_ms', to => '1,000 queued', most => 1.3 },
        { of => 'db_us', to => '1,000 queued' },
    ];

    return ({
        name => 'work-http',
        title => "claim and complete over HTTP, $at_once a claim",
        sides => [
            interlock => \&over_http,
            'one by one' => sub { over_http($_[0], 1) },
            'graphile-worker' => peer('graphile-worker', 'drain', \&jobs),
            'pg-boss' => peer('pg-boss', 'drain', \&jobs),
            'bullmq, always' => peer('bullmq', 'drain', \&jobs),
        ],
        rows => [
            { of => 'rate', least => 15_000 },
            { of => 'rate', to => 'graphile-worker', least => 0.6 },
            { of => 'rate', to => 'pg-boss', least => 1 },
            { of => 'rate', to => 'bullmq, always' },
            { of => 'nginx_us' }, { of => 'backend_us' }, { of => 'db_us' },
            { of => 'client_cores' },
            { of => 'rate', side => 'one by one' },
            { of => 'nginx_us', side => 'one by one' },
            { of => 'backend_us', side => 'one by one' },
            { of => 'db_us', side => 'one by one' },
        ],
    }, {
        name => 'work-sql',
        title => "claim and complete in SQL alone, $at_once a call",
        sides => [ interlock => \&in_sql ],
        rows => [ { of => 'rate', least => 40_000 }, { of => 'db_us' } ],
    }, {
        name => 'wake',
        title => 'from accept to a worker that waits, idle',
        sides => [
            interlock => \&wake,
            'graphile-worker' => peer('graphile-worker', 'latency',
                seconds()),
            'pg-boss' => peer('pg-boss', 'latency', seconds()),
        ],
        rows => [
            { of => 'p50_ms', most => 2 }, { of => 'p99_ms', most => 6 },
            { of => 'ack_p50_ms' },
            { of => 'p50_ms', to => 'graphile-worker' },
            { of => 'p50_ms', to => 'pg-boss' },
        ],
    }, {
        name => 'claim-cost',
        title => "a claim, $many queued",
        sides => [
            '1,000 queued' => claims([ 'bench-small' ],
                queue_of('bench-small', 1000)),
            interlock => claims([ 'bench-big' ],
                queue_of('bench-big', $million)),
        ],
        rows => $rows,
    }, {
        name => 'claim-blocked',
        title => "a claim, $many behind one full limit",
        sides => [
            '1,000 queued' => claims([ 'bench-few' ],
                queue_of('bench-few', 1000)),
            interlock => claims([ 'bench-full', 'bench-free' ],
                blocked('bench-full', 'bench-free', $million)),
        ],
        rows => $rows,
    }, {
        name => 'snapshot',
        title => 'the queue beside an open snapshot, '
            . ($ENV{BENCH_SNAPSHOT} || 60) . ' s',
        once => \&snapshot,
        rows => [ { of => 'rate', to => 'before', least => 0.8 } ],
    }, {
        name => 'hot-key',
        title => '10,000 cold keys beside 200 clients on a hot one',
        sides => [
            'beside cold ones' => beside(0),
            interlock => beside(1),
        ],
        rows => [
            { of => 'p99_ms', to => 'beside cold ones', most => 1.5 },
            { of => 'p50_ms', to => 'beside cold ones' },
        ],
    });
}

1;
