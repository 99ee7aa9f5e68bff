#!/usr/bin/perl

# The system clock of the host of interlockd and nginx is moved by 90 s, there
# and back, while leases live (libfaketime): no lease ends early or late by
# the database's clock, which decides alone.  What moves is the window in
# which a signature's time stamp is taken, which nginx judges by its own
# clock.  Then the clock of a worker's host.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp qw(tempdir);
use Test::More;
use Time::HiRes qw(sleep time);
use Time::Local qw(timegm);

use Interlock::Test;

my ($library) = glob '/usr/lib/*/faketime/libfaketimeMT.so.1';
plan skip_all => 'no libfaketime (Debian package faketime)'
    unless $library;
plan skip_all => 'libfaketime and a sanitizer both want to be loaded first'
    if grep { /san\b/ } $ENV{INTERLOCK_BUILD} // '', $ENV{INTERLOCKD} // '';

my $lease = 3;
my $sweep = 1;          # recover_interval
my $slack = 3;          # what a busy machine may add

# Programs whose clock follows a file.  Like the kernel's, their monotonic
# clock stays as it is when the other one is moved.
my $tmp = tempdir(CLEANUP => 1);
chmod 0755, $tmp;
my $clock = "$tmp/clock";
my $build = $ENV{INTERLOCK_BUILD} // "$Interlock::Test::TOP/build";

move_clock(0);
my $nginx = (grep { -x } map { "$_/nginx" } split(/:/, $ENV{PATH}),
    '/usr/sbin')[0];
my $backend = program(interlockd => Cwd::abs_path("$build/interlockd"));
my $edge = program(nginx => $nginx);

my $i = Interlock::Test->instance(
    env => { INTERLOCKD => $backend, INTERLOCK_NGINX => $edge },
    nginx_main => join "\n", map { "env $_;" } qw(FAKETIME_TIMESTAMP_FILE
        FAKETIME_NO_CACHE FAKETIME_DONT_FAKE_MONOTONIC DONT_FAKE_MONOTONIC));

sub program {
    my ($name, $real) = @_;

    my $path = "$tmp/$name";
    Interlock::Test::spew($path, <<END);
#!/bin/sh
FAKETIME_TIMESTAMP_FILE='$clock' FAKETIME_NO_CACHE=1 \\
FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1 \\
LD_PRELOAD='$library' exec '$real' "\$@"
END
    chmod 0755, $path;
    return $path;
}

sub move_clock {
    my ($by) = @_;

    Interlock::Test::spew("$clock.new", sprintf "%+d\n", $by);
    chmod 0644, "$clock.new";
    rename "$clock.new", $clock or die "$clock: $!";
}

my %month = map { (qw(Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec))[$_]
    => $_ } 0 .. 11;

# What nginx takes the time for.
sub edge_clock {
    my $date = $i->http(GET => '/livez')->{headers}{date} // '';
    my ($d, $m, $y, $H, $M, $S) = $date
        =~ /, (\d+) (\w{3}) (\d{4}) (\d+):(\d+):(\d+) GMT/ or return 0;
    return timegm($S, $M, $H, $d, $month{$m}, $y);
}

# And interlockd: by the last line of its log that a refused call makes.
sub backend_clock {
    my ($last) = reverse split /\n/, $i->log('interlockd');
    my ($y, $m, $d, $H, $M, $S) = ($last // '')
        =~ /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)/ or return 0;
    return timegm($S, $M, $H, $d, $m - 1, $y);
}

sub put_kind {
    my ($name, %doc) = @_;

    my $res = $i->http(PUT => "/v1/kinds/$name", { token => 'operator',
        body => { overlap => 'buffer_all', lease_seconds => $lease,
            max_attempts => 9, %doc } });
    is($res->{status}, 200, "kind $name") or diag $res->{body};
}

my $n = 0;

sub submit {
    my ($kind) = @_;

    my $res = $i->http(POST => '/v1/jobs', { token => 'submit',
        body => { kind => $kind, work_key => 'clock:' . ++$n } });
    die $res->{body} if $res->{status} != 202;
    return $res->{json}{job_id};
}

sub claim {
    my ($kind) = @_;

    my $res = $i->http(POST => '/v1/leases', { token => 'worker',
        body => { worker => 'w', kinds => [$kind], wait => 10 } });
    die $res->{body} if $res->{status} != 200;
    return $res->{json}{leases}[0] // die "no lease of $kind";
}

sub call {
    my ($l, $name, $body) = @_;

    return $i->http(POST => "/v1/lease/$name", { body => $body // {},
        headers => { Authorization => "Bearer $l->{owner_token}" } });
}

# A lease by the database: how long it was held, once it is lost.
sub held {
    my ($l) = @_;

    $i->wait_for(sub { $i->psql("select count(*) from interlock.attempts"
        . " where job_id = '$l->{job_id}' and fence = $l->{fence}") },
        $lease + $sweep + 10, 'the lease to be recovered');
    return $i->psql("select extract(epoch from ended_at - granted_at)"
        . " from interlock.attempts where job_id = '$l->{job_id}'"
        . " and fence = $l->{fence}");
}

sub in_time {
    my ($seconds, $what) = @_;

    cmp_ok($seconds, '>=', $lease, "$what: not early");
    cmp_ok($seconds, '<=', $lease + $sweep + $slack,
        "$what: not late ($seconds s)");
}

sub stripe {
    my ($off) = @_;

    my $body = sprintf '{"id":"evt_%d","type":"charge.succeeded"}', ++$n;
    return $i->http(POST => '/in/stripe', { body => $body, headers => {
        'Content-Type' => 'application/json',
        'Stripe-Signature' => $i->sign_stripe($body, int(time) + $off) } })
        ->{status};
}

put_kind("clock-$_") for qw(silent renew retry);

my $by = 0;
for my $next (90, -90, 0) {
    my $where = sprintf 'the clock goes from %+d to %+d', $by, $next;
    note($where);

    # Leases that live when the clock moves.
    submit("clock-$_") for qw(silent renew);
    my $silent = claim('clock-silent');
    my $renewed = claim('clock-renew');
    is(call($renewed, 'renew')->{status}, 200, 'a lease is renewed');

    move_clock($next);
    $by = $next;

    my $off = edge_clock() - time;
    cmp_ok(abs($off - $by), '<=', 3, "$where: nginx sees it");

    # ... one of them renewed over three leases' time
    my ($end, $bad, $late, $last) = (time + 3 * $lease, '', 0, time);
    my $after;
    while (time < $end && !$bad) {
        sleep($lease / 4);
        my $res = call($renewed, 'renew');
        $late = time - $last if time - $last > $late;
        $last = time;
        $bad = "$res->{status} $res->{body}" if $res->{status} != 200;

        # and one that is taken after the move
        if (!$after) {
            submit('clock-silent');
            $after = claim('clock-silent');
        }
    }
    is($bad, '', sprintf 'the renewed lease goes on (longest gap %.1f s)',
        $late);
    is(call($renewed, 'complete')->{status}, 200, 'and completes');
    is($i->psql("select attempts from interlock.jobs"
        . " where id = '$renewed->{job_id}'"), 1, 'by its only attempt');

    in_time(held($silent), 'a lease from before');
    in_time(held($after), 'a lease from after');

    my ($y, $m, $d, $H, $M, $S) = $after->{expires_at}
        =~ /^(\d+)-(\d+)-(\d+)T(\d+):(\d+):([\d.]+)Z/;
    my $told = timegm(int $S, $M, $H, $d, $m - 1, $y);
    my $real = $i->psql("select extract(epoch from granted_at) + $lease"
        . " from interlock.attempts where job_id = '$after->{job_id}'"
        . " and fence = $after->{fence}");
    cmp_ok(abs($told - $real), '<=', 1.01,
        'expires_at was told by the database\'s clock');

    # interlockd wrote to its log when it recovered these
    cmp_ok(abs(backend_clock() - time - $by), '<=', 10,
        "$where: interlockd sees it");

    # They run again at once; then they end.
    $i->http(POST => '/v1/jobs/' . $_->{job_id} . '/cancel', {
        token => 'operator', body => { requested_by => 'o', reason => 't' } })
        for $silent, $after;

    # A retry that is due in two seconds.
    my $job = submit('clock-retry');
    is(call(claim('clock-retry'), 'fail', { error => 'later',
        retryable => \1, retry_after => 2 })->{status}, 200, 'a retry');
    my $again = claim('clock-retry');
    is($again->{job_id}, $job, 'which comes');
    my $waited = $i->psql("select extract(epoch from l.granted_at"
        . " - a.ended_at) from interlock.leases l join interlock.attempts a"
        . " using (tenant, job_id) where l.job_id = '$job'");
    cmp_ok($waited, '>=', 2, 'not early');
    cmp_ok($waited, '<=', 2 + $slack, "not late ($waited s)");
    is(call($again, 'complete')->{status}, 200, 'it completes');

    # A wait of two seconds.
    $job = submit('clock-retry');
    my $t0 = time;
    $i->http(GET => "/v1/jobs/$job", { token => 'auditor',
        headers => { Prefer => 'wait=2' } });
    my $took = time - $t0;
    cmp_ok(abs($took - 2), '<', $slack, sprintf 'a wait of 2 s takes %.1f s',
        $took);
    is(call(claim('clock-retry'), 'complete')->{status}, 200,
        'and that job ends');

    # Signatures may be 300 s off, by nginx's clock.
    is(stripe(0), 202, 'a signature made now is taken');
    is(stripe(-250), $by > 0 ? 401 : 202, 'one of 250 s ago: '
        . ($by > 0 ? 'refused by a clock that is ahead' : 'taken'));
    is(stripe(250), $by < 0 ? 401 : 202, 'one of 250 s ahead: '
        . ($by < 0 ? 'refused by a clock that is behind' : 'taken'));
}

# The worker's host.
for my $off ('+90', '-90') {
    my $job = submit('clock-renew');
    my $pid = $i->spawn_cli({ token => 'worker', env => {
        LD_PRELOAD => $library, FAKETIME => $off,
        FAKETIME_DONT_FAKE_MONOTONIC => 1, DONT_FAKE_MONOTONIC => 1 } },
        'work', '--kind', 'clock-renew', '--once', '--', 'sh', '-c',
        "sleep @{[ 2 * $lease + 1 ]}; date +%s");
    $i->wait_for(sub { $i->psql("select status from interlock.jobs"
        . " where id = '$job'") =~ /succeeded|failed/ }, 60, 'the worker');
    my ($row) = $i->sql("select j.attempts, j.status, r.result,"
        . " extract(epoch from a.ended_at)::bigint"
        . " from interlock.jobs j left join interlock.results r"
        . " on r.tenant = j.tenant and r.job_id = j.id"
        . " join interlock.attempts a on a.tenant = j.tenant"
        . " and a.job_id = j.id where j.id = '$job'");
    is("$row->[0] $row->[1]", '1 succeeded',
        "interlock work at $off s keeps its lease for two");
    cmp_ok(abs(($row->[2] // 0) - $row->[3] - $off), '<', 10,
        'by that clock, indeed');
}

$i->check_sql;

done_testing();
