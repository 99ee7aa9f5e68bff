#!/usr/bin/perl

# How it ends, and what it does without its database.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::FastCGI;
use Interlock::PgProxy;
use Interlock::Session;
use Interlock::Test;

my $i = Interlock::Test->instance(start => 0);
my ($real) = $i->dsn('service') =~ /host=(\S+)/;
my $proxy = Interlock::PgProxy->new($real);
(my $dsn = $i->dsn('service')) =~ s/host=\S+/'host=' . $proxy->dir/e;
$i->local_conf('interlockd', "dsn = $dsn");
$i->start;

# A second interlockd over the same database, which nobody starts again.

my $dir = $proxy->dir . '/second';
mkdir $dir or die "$dir: $!";
my ($uid, $gid) = (stat $i->dir)[ 4, 5 ];
chown $uid, $gid, $dir;
my $sock = "$dir/s";
my $log = "$dir/log";
my $pid;

sub start {
    my @args = @_;
    unlink $log;
    $pid = fork() // die "fork: $!";
    if (!$pid) {
        POSIX::setgid($gid) if $> == 0;
        POSIX::setuid($uid) if $> == 0;
        exec program(), '-c', $i->dir . '/interlockd.conf',
            "--listen=$sock", "--log=$log", '--pid=', '--edge_socket=',
            "--dsn=$dsn", @args
            or POSIX::_exit(127);
    }
    $i->wait_for(sub { -S $sock && eval { connection() } }, 10,
        'the second interlockd');
}

sub program { return $ENV{INTERLOCKD} // $i->build . '/interlockd' }
sub connection { return Interlock::FastCGI->new($sock) }
sub logged { return Interlock::Test::slurp($log) // '' }

# ended(seconds): its exit status, or undef if it runs on
sub ended {
    my ($seconds) = @_;
    my $end = time + $seconds;
    while (time < $end) {
        return $? >> 8 | ($? & 127) << 8
            if waitpid($pid, POSIX::WNOHANG()) == $pid;
        sleep(0.01);
    }
    return undef;
}

END { if ($pid && kill 0, $pid) { local $?; kill 'KILL', $pid } }

my %token = map { $_ => $i->token($_) } qw(submit worker auditor);
my %claim = (token => $token{worker},
    body => { kinds => ['free'], wait => 30 });

sub job {
    my ($key) = @_;
    return { token => $token{submit},
        body => { kind => 'free', work_key => $key } };
}

# --- SIGTERM ---------------------------------------------------------------

$i->psql(q{
create function public.slow() returns trigger language plpgsql as $$
begin
    if new.work_key like 'slow:%' then
        perform pg_advisory_xact_lock_shared(1);
    end if;
    return new;
end $$;
create trigger slow before insert on interlock.jobs
    for each row execute function public.slow();
});

start();
my @parked = map { connection() } 1 .. 20;
$_->send(POST => '/v1/leases', \%claim) for @parked;
my $watched = connection()->request(POST => '/v1/jobs', {
    token => $token{submit}, body => { kind => 'tally', work_key => 'w' } })
    ->{json}{job_id};
my $look = connection();
$look->send(GET => "/v1/jobs/$watched", { token => $token{auditor},
    headers => { prefer => 'wait=30' } });
my $idle = connection();
$idle->request(GET => '/livez');
$i->wait_for(sub { connection()->request(GET => '/metrics')->{body}
    =~ /^interlock_parked_requests 21$/m }, 5, 'all to be parked');
# One submission is under way until the test lets it go.
my $gate = Interlock::Session->new($i->dsn('admin'));
$gate->do('select pg_advisory_lock(1)');
my $slow = connection();
$slow->send(POST => '/v1/jobs', job('slow:1'));
sub under_way {
    my ($event) = @_;
    $i->wait_for(sub { $i->psql("select count(*) from pg_stat_activity where "
        . "wait_event = '$event'") }, 5, 'the slow one to be under way');
}
under_way('advisory');

my $t0 = time;
kill 'TERM', $pid;
my $empty = grep { ($_->response(2) // {})->{body} // '' eq '{"leases":[]}' }
    @parked;
is($empty, 20, 'SIGTERM: parked claims are answered with an empty list');
is($look->response(2)->{json}{status}, 'queued',
    'a job that is waited for: as it is');
ok(!eval { connection() }, 'no new connection is taken');
my $res = $idle->request(POST => '/v1/leases', \%claim);
is($res->{body}, '{"leases":[]}', 'nothing more is claimed');
is($idle->request(GET => '/readyz')->{status}, 503, 'it is not ready');
$gate->do('select pg_advisory_unlock(1)');
is($slow->response(5)->{status}, 202, 'what is under way is finished');
is(ended(5), 0, 'exit 0');
cmp_ok(time - $t0, '<', 4, 'within a few seconds');
is($i->psql("select count(*) from interlock.jobs where work_key = 'slow:1'"),
    1, 'and what was answered is stored');

# --- a second signal, and a database that does not answer ------------------

start();
$slow = connection();
$i->psql('create or replace function public.slow() returns trigger language '
    . 'plpgsql as $$ begin if new.work_key like $x$slow:%$x$ then perform '
    . 'pg_sleep(30); end if; return new; end $$');
$slow->send(POST => '/v1/jobs', job('slow:2'));
under_way('PgSleep');
kill 'TERM', $pid;
sleep(0.2);
ok(!defined ended(0.2), 'one signal: it waits for what is under way');
kill 'TERM', $pid;
isnt(ended(2) // 0, 0, 'a second signal: it ends at once');

start('--drain-timeout=1s');
$i->psql('select pg_terminate_backend(pid) from pg_stat_activity where '
    . "wait_event = 'PgSleep'");
$slow = connection();
$slow->send(POST => '/v1/jobs', job('slow:3'));
under_way('PgSleep');
kill 'INT', $pid;
is(ended(5), 1, 'beyond drain_timeout it ends too, and says so');
$i->psql('select pg_terminate_backend(pid) from pg_stat_activity where '
    . "application_name like 'interlockd submit%'");
$i->psql('drop trigger slow on interlock.jobs; '
    . 'drop function public.slow()');

# --- SIGHUP, the socket ----------------------------------------------------

start();
rename $log, "$log.1";
kill 'HUP', $pid;
$i->wait_for(sub { logged() =~ /opened again/ }, 5, 'the new log');
pass('SIGHUP opens the log again');
is(sprintf('%o', (stat $sock)[2] & 0777), '660', 'the socket is 0660');
my $mode = (split ' ', (grep { /^VmRSS/ } split /\n/,
    Interlock::Test::slurp("/proc/$pid/status"))[0])[1];
ok($mode, 'it runs');
my ($code, $out, $err) = Interlock::Test::run([ 'sh', '-c', 'exec "$@"', 'sh',
    program(), '-c', $i->dir . '/interlockd.conf',
    "--listen=$sock", '--log=stderr', '--pid=', '--edge_socket=' ],
    timeout => 10);
isnt($code, 0, 'another one cannot take its socket');
like($err, qr/in use/, 'and says why');

# --- the database is away --------------------------------------------------

my $c = connection();
is($c->request(POST => '/v1/jobs', job('away:0'))->{status}, 202, 'as ever');
$proxy->down;

$t0 = time;
$res = $c->request(POST => '/v1/jobs', job('away:1'));
is($res->{status}, 503, 'the database is away: 503');
is($res->{headers}{'retry-after'}, 1, 'with Retry-After');
is($res->{headers}{'content-type'}, 'application/problem+json', 'a problem');
cmp_ok(time - $t0, '<', 4, 'soon');
sleep(2);
$t0 = time;
is($c->request(POST => '/v1/jobs', job('away:2'))->{status}, 503, 'again');
cmp_ok(time - $t0, '<', 0.5, 'and at once, now that it is known');
is($c->request(GET => '/livez')->{status}, 200, 'livez does not need it');
$res = $c->request(GET => '/readyz');
is($res->{status}, 503, 'readyz does');
$res = $c->request(GET => '/metrics');
is($res->{status}, 200, 'metrics are there');
like($res->{body}, qr/^interlock_db_up 0$/m, 'and say so');
my $own = connection()->request(POST => '/v1/leases', \%claim);
is($own->{status}, 503, 'a claim: 503');

$proxy->up;
$t0 = time;
$i->wait_for(sub { $c->request(GET => '/readyz')->{status} == 200 }, 10,
    'the database to be back');
cmp_ok(time - $t0, '<', 3, 'it is back: found soon');
$i->wait_for(sub { $c->request(POST => '/v1/jobs', job('away:3'))->{status}
    == 202 }, 5, 'submissions');
is($i->psql("select string_agg(work_key, ' ' order by work_key) from "
    . "interlock.jobs where work_key like 'away:%'"), 'away:0 away:3',
    'what was refused is not stored');

# --- a database that cannot be trusted -------------------------------------

$i->psql("alter system set fsync = off; ");
$i->psql('select pg_reload_conf()');
$i->wait_for(sub { $i->psql('show fsync') eq 'off' }, 5, 'fsync off');
$res = $i->wait_for(sub {
    my $r = $c->request(GET => '/readyz');
    $r->{status} == 503 && $r;
}, 5, 'not ready');
like($res->{json}{detail}, qr/fsync/, 'fsync off: not ready, and says why');
my $n = 0;
$res = $i->wait_for(sub {
    my $r = $c->request(POST => '/v1/jobs', job('fsync:' . $n++));
    $r->{status} == 503 && $r;
}, 8, 'a refusal');
ok($res, 'connections to such a server are not used any more');
$i->psql('select pg_terminate_backend(pid) from pg_stat_activity where '
    . "application_name like 'interlockd%'");
is($c->request(POST => '/v1/jobs', job('fsync'))->{status}, 503,
    'nor are new ones');
$i->psql("alter system reset fsync");
$i->psql('select pg_reload_conf()');
$i->wait_for(sub { $c->request(POST => '/v1/jobs', job('trusted'))->{status}
    == 202 }, 10, 'submissions again');
pass('and used again when it is on');

kill 'TERM', $pid;
is(ended(5), 0, 'exit 0');
$i->check_sql;

done_testing();
