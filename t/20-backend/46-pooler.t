#!/usr/bin/perl

# An interlockd behind PgBouncer in transaction mode: everything works, and
# wake-ups do where notify_dsn leads around it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;
use Time::HiRes qw(time);

use Interlock::FastCGI;
use Interlock::Test;

my ($missing) = Interlock::Test::run([ 'sh', '-c',
    'PATH=$PATH:/usr/sbin command -v pgbouncer' ]);
plan skip_all => 'pgbouncer is not installed' if $missing;

my $i = Interlock::Test->instance;
my %token = map { $_ => $i->token($_) } qw(submit worker operator auditor);
my $direct = $i->dsn('service');
my ($sock) = $direct =~ /host='?([^' ]+)/;

# a pooler of the instance's user, with fewer connections than interlockd has

my $pool = $i->dir . '/pool';
mkdir $pool or die "$pool: $!";
Interlock::Test::spew("$pool/users", qq("interlock_service" ""\n));
Interlock::Test::spew("$pool/ini", <<"END");
[databases]
interlock = host=$sock dbname=interlock

[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = $pool
auth_type = trust
auth_file = $pool/users
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
logfile = $pool/log
END
my ($uid, $gid) = (stat $i->dir)[ 4, 5 ];
my @as = ();
if ($> == 0) {
    chown $uid, $gid, $pool, "$pool/users", "$pool/ini";
    @as = ('setpriv', "--reuid=$uid", "--regid=$gid", '--clear-groups');
}
my $pooler = fork() // die "fork: $!";
if (!$pooler) {
    $ENV{PATH} .= ':/usr/sbin';
    open STDERR, '>', '/dev/null';
    exec @as, 'pgbouncer', '-q', "$pool/ini" or POSIX::_exit(127);
}
END {
    my $code = $?;
    if ($pooler) { kill 'KILL', $pooler; waitpid $pooler, 0 }
    $? = $code;
}
$i->wait_for(sub { -S "$pool/.s.PGSQL.6432" }, 10, 'the pooler');
my $dsn = "host=$pool port=6432 dbname=interlock user=interlock_service "
    . "options=''";

sub metric {
    my ($socket, $name) = @_;
    my $text = Interlock::FastCGI->new($socket)->request(GET => '/metrics')
        ->{body};
    return ($text =~ /^interlock_\Q$name\E (\S+)$/m)[0];
}

sub wait_metric {
    my ($socket, $name, $want) = @_;
    $i->wait_for(sub { (metric($socket, $name) // '') eq $want }, 15,
        "$name $want");
}

my $c = Interlock::FastCGI->of_instance($i);

sub submit {
    my ($conn, $key) = @_;
    my $res = $conn->request(POST => '/v1/jobs', { token => $token{submit},
        body => { kind => 'free', work_key => $key } });
    die "submit: $res->{body}" if $res->{status} != 202;
    return $res->{json}{job_id};
}

# woken(there): ms from a submission here to the claim there
sub woken {
    my ($socket, $key) = @_;
    my $parked = Interlock::FastCGI->new($socket);
    $parked->send(POST => '/v1/leases', { token => $token{worker},
        body => { kinds => ['free'], wait => 20 } });
    wait_metric($socket, 'parked_requests', 1);
    my $t0 = time;
    submit($c, $key);
    my $lease = $parked->response(10)->{json}{leases}[0];
    my $ms = 1000 * (time - $t0);
    is($lease->{work_key}, $key, "$key is claimed behind the pooler");
    is($parked->request(POST => '/v1/lease/complete', {
        token => $lease->{owner_token}, body => {} })->{status}, 200,
        'and completed');
    return $ms;
}

my $two = $i->another_backend('around', dsn => $dsn, notify_dsn => $direct);
is(Interlock::FastCGI->new($two->{socket})->request(GET => '/readyz')
    ->{status}, 200, 'ready behind a pooler');
wait_metric($two->{socket}, 'notify_peers', 1);
my @ms = sort { $a <=> $b } map { woken($two->{socket}, "around:$_") } 1 .. 9;
cmp_ok($ms[4], '<', 100, sprintf('notify_dsn around it: woken in %.1f ms',
    $ms[4]));

my $d = Interlock::FastCGI->new($two->{socket});
my @conn = map { Interlock::FastCGI->new($two->{socket}) } 1 .. 20;
$conn[$_]->send(POST => '/v1/jobs', { token => $token{submit},
    body => { kind => 'free', work_key => "many:$_" } }) for 0 .. $#conn;
is(scalar(grep { $_->response(10)->{status} == 202 } @conn), 20,
    'twenty submissions at once go through it');
my $got = 0;
while ($got < 20) {
    my $leases = $d->request(POST => '/v1/leases', { token => $token{worker},
        body => { kinds => ['free'], max => 7, wait => 5 } })->{json}{leases};
    last unless @$leases;
    $got += grep { $d->request(POST => '/v1/lease/complete', {
        token => $_->{owner_token}, body => {} })->{status} == 200 } @$leases;
}
is($got, 20, 'and end through it');
kill 'TERM', $two->{pid};
waitpid $two->{pid}, 0;
is($?, 0, '(it ends)');

my $three = $i->another_backend('through', dsn => $dsn);
$i->wait_for(sub { $i->log('through') =~ /notify: a pooler is in between/ },
    15, 'the log to say that it cannot listen there');
is(metric($three->{socket}, 'notify_up'), 0, 'without notify_dsn it is not '
    . 'up, and the log says why');
cmp_ok(woken($three->{socket}, 'through:1'), '<', 2200,
    'and work is found by the poll');
is(Interlock::FastCGI->new($three->{socket})->request(GET => '/readyz')
    ->{status}, 200, 'ready all the same');

$i->check_sql;
done_testing();
