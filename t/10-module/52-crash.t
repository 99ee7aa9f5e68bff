# A worker that is killed leaves an entry for no longer than the in-flight
# time; one that is killed in the middle of a change to the zone leaves a zone
# that is forgotten, not one that crashes the next worker.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Cwd qw(abs_path);
use Interlock::Nginx;
use Test::More;
use Time::HiRes qw(sleep time);

my $TOP = $Interlock::Nginx::TOP;

my %conf = (workers => 2,
    http => 'interlock_zone zone=z:256k in_flight=2s;',
    server => <<'END');
        interlock_tenant demo;
        location /in {
            interlock zone=z; interlock_kind k; interlock_source s;
            interlock_wait 20s;
            interlock_idempotency_key $http_x_id;
            fastcgi_pass backend;
        }
        location = /status { interlock_status; }
END

# --- killed with a request in flight, and with others waiting

{
    my $t = Interlock::Nginx->new(%conf, workers => 1);
    $t->start;

    my $c = $t->connect;
    $c->request(POST => '/in', { body => '{}',
        headers => [ 'X-Id' => 'a', 'X-Backend' => 'hold=a' ] });
    $t->wait_seen(1);
    my $begun = time;
    my ($worker) = $t->workers;
    kill KILL => $worker;
    is($c->response->{status}, 0, 'the client sees a closed connection');

    # nobody settles the entry now: a repeat waits for its time to end
    my $res = $t->http(POST => '/in', { body => '{}',
        headers => [ 'X-Id' => 'a' ] });
    is($res->{status}, 202, 'the repeat goes through');
    cmp_ok(time - $begun, '>', 1.5, 'when the in-flight time has ended');
    cmp_ok(time - $begun, '<', 6, 'and no later');
    is(scalar $t->seen, 2, 'to the backend');
    is($t->status->{expired_in_flight}, 1, 'counted');
    is($t->http(POST => '/in', { body => '{}', headers => [ 'X-Id' => 'a' ] })
        ->{body}, $res->{body}, 'and is kept');

    $t->allow_log(qr/worker process $worker exited on signal 9/);
    $t->finish;
}

# --- killed again and again under load, at any instruction

sub load {
    my ($t, $clients, $until) = @_;
    my @pids;
    for my $c (1 .. $clients) {
        my $pid = fork // die;
        if (!$pid) {
            my ($i, $bad) = (0, 0);
            until (getppid == 1 || -e $t->dir . "/gate/$until") {
                my $id = "$c-" . int($i++ / 2);
                my $res = eval { $t->http(POST => '/in', { body => '{}',
                    headers => [ 'X-Id' => $id ] }) };
                # nothing (the worker was killed) or an answer
                $bad++ if $res && $res->{status}
                    && $res->{status} !~ /^(?:202|409|502)$/;
            }
            $t->write_file("load$c", "$bad $i");
            POSIX::_exit(0);
        }
        push @pids, $pid;
    }
    return @pids;
}

{
    my $t = Interlock::Nginx->new(%conf);
    $t->start;
    my @pids = load($t, 4, 'enough');
    my @killed;
    for my $i (1 .. 60) {
        my @w = $t->wait_for(sub { my @w = $t->workers; @w == 2 && \@w }, 10,
            'two workers')->@*;
        sleep 0.005 + rand 0.02;
        kill KILL => $w[ $i % 2 ];
        push @killed, $w[ $i % 2 ];
        $t->wait_for(sub { !grep { $_ == $w[ $i % 2 ] } $t->workers }, 10,
            'it to be gone');
    }
    $t->let_go('enough');
    waitpid $_, 0 for @pids;
    is((split ' ', $t->slurp("load$_"))[0], 0, "client $_: only good answers")
        for 1 .. 4;
    my $res = $t->http(POST => '/in', { body => '{}',
        headers => [ 'X-Id' => 'after' ] });
    is($res->{status}, 202, 'after 60 kills: answers');
    is($t->http(POST => '/in', { body => '{}', headers => [ 'X-Id' => 'after' ]
        })->{body}, $res->{body}, 'after 60 kills: keeps');
    $t->wait_for(sub { my $s = $t->status; $t->http(POST => '/in', { body =>
        '{}', headers => [ 'X-Id' => rand ] }); $s->{in_flight} == 0 }, 10,
        'entries of the dead to end');
    pass('entries of the dead end by time');
    my $killed = join '|', @killed;
    $t->allow_log(qr/worker process (?:$killed) exited on signal 9/,
        qr/shared memory zone "z" was locked by (?:$killed)/);
    $t->finish;
}

# --- killed in the middle of a change: a build that does it to itself

SKIP: {
    my $src = $ENV{NGINX_SRC} // '/usr/share/nginx/src';
    skip 'nginx-dev is not installed', 1 unless -x "$src/configure";

    my $build = abs_path($ENV{INTERLOCK_BUILD} // "$TOP/build");
    my $log = `cd '$TOP' && NGINX_SRC='$src' SAN= OPTIONAL=-DNGX_HTTP_INTERLOCK_FAULTS=1 bash fcgi/etc/build-module '$build/faults' 2>&1`;
    is($?, 0, 'a build that dies on request') or diag($log);

    my $t = Interlock::Nginx->new(%conf,
        module => "$build/faults/ngx_http_interlock_module.so",
        main => 'env INTERLOCK_FAULT_ZONE=7;');
    $t->start;

    my @pids = load($t, 4, 'enough');
    $t->wait_for(sub { my $n = () = $t->error_log =~ /was left in the middle/g;
        $n >= 50 }, 60, '50 of them');
    $t->let_go('enough');
    waitpid $_, 0 for @pids;
    is((split ' ', $t->slurp("load$_"))[0], 0, "client $_: only good answers")
        for 1 .. 4;

    # the same memory, with workers that do not die any more
    $t->reload(main => '');
    my $s = $t->status;
    cmp_ok($s->{rebuilds}, '>=', 50, "the zone was forgotten $s->{rebuilds} times");
    my ($k, $bad) = (undef, 0);
    for my $i (1 .. $s->{capacity} + 10) {
        $k = $t->connect if $i % 500 == 1;      # keepalive_requests
        $k->request(POST => '/in', { body => '{}',
            headers => [ 'X-Id' => "full$i" ] });
        $bad++ unless $k->response->{status} == 202;
    }
    is($bad, 0, 'and still works');
    $s = $t->status;
    is($s->{done} + $s->{in_flight}, $s->{capacity}, 'to its last entry');

    $t->allow_log(qr/worker process \d+ exited on signal 9/,
        qr/shared memory zone "z" was locked by \d+/);
    $t->finish;
}

done_testing();
