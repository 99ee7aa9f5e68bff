#!/usr/bin/perl

# Batches: a COMMIT whose answer is lost, connections killed under load, one
# row that cannot be stored among many that can, a key that is locked.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::FastCGI;
use Interlock::Load qw(run_clients);
use Interlock::PgProxy;
use Interlock::Test;

my $i = Interlock::Test->instance(start => 0);
my ($real) = $i->dsn('service') =~ /host=(\S+)/;
my $proxy = Interlock::PgProxy->new($real);
(my $dsn = $i->dsn('service')) =~ s/host=\S+/'host=' . $proxy->dir/e;
$i->local_conf('interlockd', "dsn = $dsn");
$i->start;

my %token = map { $_ => $i->token($_) } qw(submit worker auditor);
my $c = Interlock::FastCGI->of_instance($i);

sub submit {
    my ($key, $kind) = @_;
    return $c->request(POST => '/v1/jobs', { token => $token{submit},
        body => { kind => $kind // 'free', work_key => $key } });
}

# --- a lost COMMIT, call by call -------------------------------------------

$proxy->drop('interlock.submit', 1);
my $res = submit('lost:1');
is($proxy->dropped, 1, 'the answer to a COMMIT is lost');
is($res->{status}, 202, 'the submission is answered');
is($res->{json}{decision}, 'accepted', 'as accepted, not as a duplicate');
is($i->psql("select count(*) from interlock.jobs"), 1, 'one job');
is($i->psql("select count(*) from interlock.requests"), 1, 'one request');

$proxy->drop('interlock.submit', 3);
$res = submit('lost:2');
is($proxy->dropped, 4, 'lost three times in a row');
is($res->{status}, 202, 'and answered');
is($i->psql("select count(*) from interlock.requests"), 2, 'once stored');

$proxy->drop('interlock.claim', 1);
$res = $c->request(POST => '/v1/leases', { token => $token{worker},
    body => { kinds => ['free'], max => 1 } });
is($proxy->dropped, 5, 'the answer to a claim is lost');
is(scalar @{ $res->{json}{leases} }, 1, 'the claim has its lease');
is($i->psql('select count(*) from interlock.leases'), 1, 'and no other');
my $own = $res->{json}{leases}[0]{owner_token};

$proxy->drop('interlock.renew', 1);
is($c->request(POST => '/v1/lease/renew', { token => $own })->{status}, 200,
    'a renewal');
$proxy->drop('interlock.finish', 1);
$res = $c->request(POST => '/v1/lease/complete', { token => $own,
    body => { result => 1 } });
is($proxy->dropped, 7, 'the answers to a renewal and a completion are lost');
is($res->{status}, 200, 'a completion');
is($res->{json}{status}, 'succeeded', 'succeeded');
is($i->psql('select count(*) from interlock.results'), 1, 'one result');

# --- connections killed under load -----------------------------------------

my $before = $i->psql('select count(*) from interlock.requests');
my $clients = 12;
my $each = 150;

my $killer = fork() // die "fork: $!";
if (!$killer) {
    my $n = 0;
    $SIG{TERM} = sub { POSIX::_exit($n > 250 ? 250 : $n) };
    while (1) {
        # a new connection has the time to be made, as a rule
        sleep(0.025 + rand 0.04);
        # half of them by the server, half with the answer lost
        if (rand() < 0.5) {
            $proxy->drop('interlock.submit', 1);
            $n++;
        } else {
            $n += $i->psql('select count(pg_terminate_backend(pid)) from '
                . "pg_stat_activity where application_name = "
                . "'interlockd submit'");
        }
    }
}

my @requests = map { { id => $_, method => 'POST', path => '/v1/jobs',
    headers => { authorization => "Bearer $token{submit}",
        'content-type' => 'application/json' },
    body => qq({"kind":"free","work_key":"load:$_"}) } } 1 .. $clients * $each;
my $answers = run_clients(clients => $clients, url => $i->url,
    requests => \@requests, tries => 1, until => sub { 1 });
kill 'TERM', $killer;
waitpid $killer, 0;
my $kills = $? >> 8;

cmp_ok($kills, '>', 10, "$kills connections or answers were lost");
my %by;
$by{ $_->{status} }++ for @$answers;
is(join(' ', map { "$_: $by{$_}" } sort keys %by), '202: '
    . $clients * $each, 'each submission was answered 202, at once');
my %decision;
$decision{ $_->{headers}{'interlock-decision'} // '' }++ for @$answers;
is(join(' ', %decision), 'accepted ' . $clients * $each,
    'as accepted, though none has an idempotency key');
is($i->psql('select count(*) from interlock.requests') - $before,
    $clients * $each, 'each was stored once');
is($i->psql("select count(distinct work_key) from interlock.jobs where "
    . "work_key like 'load:%'"), $clients * $each, 'each key has its job');

# --- one bad row among many ------------------------------------------------

$i->psql(q{
create function public.poison() returns trigger language plpgsql as $$
begin
    if new.work_key like 'poison:%' then
        raise exception 'poisoned';
    end if;
    return new;
end $$;
create trigger poison before insert on interlock.jobs
    for each row execute function public.poison();
});

# hold the batch back until all are queued
sub held_up {
    my ($what) = @_;

    my $hold = fork() // die "fork: $!";
    if (!$hold) {
        eval { $i->psql('begin; lock table interlock.requests in '
            . 'access exclusive mode; select pg_sleep(1.0); rollback;') };
        POSIX::_exit(0);
    }
    $i->wait_for(sub { $i->psql("select count(*) from pg_locks where "
        . "mode = 'AccessExclusiveLock' and granted and relation = "
        . "'interlock.requests'::regclass") }, 5, 'the lock');
    my @got = $what->();
    waitpid $hold, 0;
    return @got;
}

my @c = map { Interlock::FastCGI->of_instance($i) } 1 .. 64;
my @res = held_up(sub {
    for my $n (0 .. 63) {
        my $key = $n == 21 || $n == 22 ? "poison:$n" : "well:$n";
        $c[$n]->send(POST => '/v1/jobs', { token => $token{submit},
            body => { kind => 'free', work_key => $key } });
    }
    return map { $_->response } @c;
});
is(join(',', grep { $res[$_]{status} != 202 } 0 .. 63), '21,22',
    'of 64 submissions at once just the two bad ones fail');
is($res[21]{status}, 500, 'with a 500');
is($res[21]{json}{type}, 'https://interlock.invalid/problems/internal',
    'a problem');
unlike($res[21]{body}, qr/poison/, 'that tells nothing of the inside');
is($i->psql("select count(*) from interlock.jobs where work_key like "
    . "'well:%'"), 62, 'the others are stored');
is($i->psql("select count(*) from interlock.works where work_key like "
    . "'poison:%'"), 0, 'of the bad ones there is nothing');
$i->psql('drop trigger poison on interlock.jobs; '
    . 'drop function public.poison()');

# --- a deadlock is run again -----------------------------------------------

$i->psql(q{
create table public.once (n int);
insert into public.once values (2);
grant all on public.once to public;
create function public.deadlock() returns trigger language plpgsql
security definer as $$
begin
    if new.work_key = 'deadlock' then
        if (select n from public.once) > 0 then
            raise exception 'as if' using errcode = '40P01';
        end if;
    end if;
    return new;
end $$;
create trigger deadlock before insert on interlock.jobs
    for each row execute function public.deadlock();
});
my $d = Interlock::FastCGI->of_instance($i);
$d->send(POST => '/v1/jobs', { token => $token{submit},
    body => { kind => 'free', work_key => 'deadlock' } });
ok(!$d->response(0.1), 'a deadlock: no answer yet');
$i->psql('update public.once set n = 0');
is($d->response->{status}, 202, 'it is run again, and then answered');
$i->psql('drop trigger deadlock on interlock.jobs; '
    . 'drop function public.deadlock(); drop table public.once');

# --- a key that somebody else has locked -----------------------------------

is(submit('hot', 'tally')->{status}, 202, 'a job of a key');
my $hold = fork() // die "fork: $!";
if (!$hold) {
    eval { $i->psql("begin; select 1 from interlock.works where work_key = "
        . "'hot' for update; select pg_sleep(1.5); rollback;") };
    POSIX::_exit(0);
}
$i->wait_for(sub { $i->psql("select count(*) from pg_stat_activity where "
    . "wait_event = 'PgSleep'") }, 5, 'the lock');
my $hot = Interlock::FastCGI->of_instance($i);
my $t0 = time;
$hot->send(POST => '/v1/jobs', { token => $token{submit},
    body => { kind => 'tally', work_key => 'hot' } });
sleep(0.1);
my $worst = 0;
for my $n (1 .. 50) {
    my $t = time;
    is(submit("cold:$n")->{status}, 202, 'cold key') or last;
    $worst = time - $t if time - $t > $worst;
}
my $spent = time - $t0;
cmp_ok($spent, '<', 1.4, 'all of it while the key is locked');
cmp_ok($worst, '<', 0.5, sprintf('other keys are not held up (%.0f ms at '
    . 'worst)', $worst * 1000));
ok(!$hot->response(0), 'the locked one waits');
is($hot->response->{json}{decision}, 'skipped', 'until the key is free');
waitpid $hold, 0;

$i->check_sql;

done_testing();
