#!/usr/bin/perl

# What has changed since a cursor: nothing is lost whatever order
# transactions commit in, wherever a reader stopped, and however often it
# begins anew.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use IO::Handle;
use IPC::Open2 qw(open2);
use Test::More;

use Cluster;

my $each = $ENV{INTERLOCK_STRESS} // 150;
my $c = Cluster->new;

# A session that stays open; answers each statement's rows.
sub session {
    my $pid = open2(my $out, my $in, qw(stdbuf -oL psql), '-qXAt', '-v', 'ON_ERROR_STOP=1',
        '-h', $c->{dir}, '-U', 'admin', '-d', 'interlock');
    $in->autoflush(1);
    return sub {
        my ($sql) = @_;
        print $in "$sql;\n\\echo ---\n";
        my @rows;
        while (defined(my $line = <$out>)) {
            chomp $line;
            return @rows if $line eq '---';
            push @rows, $line;
        }
        die "psql has ended at: $sql";
    };
}

my ($one, $two, $reader) = (session(), session(), session());

# As the stress test has them.
$c->psql(q{
    select t.policy('free', 'overlap allow, backoff 0');
    select t.policy('skip', 'overlap skip, backoff 0');
    select t.policy('one', 'overlap buffer_one, backoff 0');
    select t.policy('ret', 'overlap buffer_one, when_completed return, result_ttl 1, allow_fresh true, idempotency_ttl 1, backoff 0');
    select t.policy('first', 'overlap buffer_first, backoff 0');
    select t.policy('all', 'overlap buffer_all, max_waiting 3, backoff 0');
    select t.policy('park', 'overlap buffer_all, max_waiting 2, overflow park, backoff 0');
    select t.policy('rep', 'overlap replace, cancel_grace 1, backoff 0');
    select t.kind('lim', '{"overlap":"skip","limits":["three"],"backoff":0,"max_queued":20}');
    select t.kind('lims', '{"overlap":"allow","key_template":"lims:{part}","limits":["three","two:{part}","{kind}"],"backoff":0}');
    select t.kind('fair', '{"overlap":"allow","fair_by":"2","backoff":0}');
    select t.policy('hold', 'overlap buffer_all, max_waiting 3, on_lost hold, backoff 0');
    select t.policy('effw', 'overlap buffer_one, effect_scope work, backoff 0, retry_for 3600');
    select t.policy('effj', 'overlap buffer_all, max_waiting 3, max_attempts 3, backoff 0');
    select t.providers();
    select interlock.limit_put(t.demo(), 'three', '{"capacity":3}');
    select interlock.limit_put(t.demo(), 'two:{part}', '{"capacity":2}');
    -- Two days behind, so that there is always a slot due: of work keys that
    -- the clients use too, of others, and of one that changes all the time.
    select t.schedule('shared', '{"cron":"* * * * *","zone":"UTC","kind":"one","work_key":"one:{subject}","subjects":["0","1","2"],"catch_up":"all","catch_up_max":200,"grace":60}');
    select t.schedule('queued', '{"cron":"*/2 * * * *","zone":"UTC","kind":"lim","work_key":"lim:{subject}:{slot}","subjects":["0","1"],"catch_up":"all","catch_up_max":200,"grace":60}');
    select t.schedule('dated', '{"cron":"0 * * * *","zone":"UTC","kind":"effw","work_key":"effw:{subject}:{date}","subjects":["a","b"],"catch_up":"all","catch_up_max":200,"grace":60,"approve_after":86400}');
    select t.schedule('changed', '{"cron":"* * * * *","zone":"UTC","kind":"free","work_key":"free:{slot}"}');
    select t.behind(x, '2 days') from unnest(array['shared', 'queued', 'dated']) x;
    create table t.done ();
});

sub since {
    my ($cursor, $limit, $where) = @_;
    $cursor = defined $cursor ? "'$cursor'" : 'null';
    $limit //= 100;
    $where //= q{true, '{}', '{}', '{}'};
    my @rows = $reader->("select what || ' ' || cursor || ' '"
        . " || coalesce(work_key || ' ' || (doc::json ->> 'status'), '')"
        . " from interlock.events_since(t.demo(), $cursor, $limit, 5,"
        . " $where)");
    my ($what, $next) = split / /, pop @rows;
    return ($what, $next, map { [ split ] } @rows);
}

sub rows {
    my (undef, undef, @rows) = since(@_);
    return seen(@rows);
}

sub seen { return join ', ', map { "$_->[2] $_->[3]" } @_ }

# --- in what order transactions commit ---------------------------------------

# The first of a kind makes rows that the next one would wait for.
$c->psql(q{select ord from t.submit('free', 'first', id => 99);
    select t.take('w', 'free'); select ord from t.finish('w', 'complete')});

my ($what, $start) = since(undef);
is($what, 'at', 'a first look says where it stands');

$one->('begin');
$one->(q{select ord from t.submit('free', 'early', id => 1)});
$two->(q{select ord from t.submit('free', 'late', id => 2)});
my ($w1, $c1, @r1) = since($start);
is(seen(@r1), 'late queued', 'an open transaction shows nothing');
my ($w2, $c2, @r2) = since($c1);
is("$w2 " . seen(@r2), 'at ', 'what was shown is not shown again');
$one->('commit');
my ($w3, $c3, @r3) = since($c1);
is(seen(@r3), 'early queued', 'what began first and commits last is found');
is(rows($c2), 'early queued', 'from any cursor before');
is(rows($c3), '', 'and then not again');

my ($w4, $c4, @r4) = since($start, 1);
is("$w4 " . seen(@r4), 'more early queued', 'page by page');
is($c4, $r4[0][1], 'a page goes on behind its last row');
$one->(q{select t.take('w', 'free')});
my ($w5, $c5, @r5) = since($c4, 1);
is(seen(@r5), 'late queued', 'the next page has what the first was to have');
my @rest;
my ($w6, $c6) = ('more', $c5);
while ($w6 eq 'more') {
    ($w6, $c6, my @more) = since($c6, 1);
    push @rest, @more;
}
is(seen(@rest), 'early running', 'then what has changed meanwhile');

$one->(q{select outcome from t.renew('w')});
is(rows($c6), '', 'a renewal is no change');
$one->(q{select outcome from t.renew('w', '{"done": 1,' || chr(10) || '"total": 2}')});
my ($w7, $c7, @r7) = since($c6);
is(seen(@r7), 'early running', 'progress is one');
$one->(q{select interlock.job_cancel(t.demo(), t.rid(1), 'a', 'b', 1, 'c',
    t.rid(77))});
my ($w8, $c8, @r8) = since($c7);
is(seen(@r8), 'early running', 'and so is a cancel that was requested');
$one->(q{select outcome from t.finish('w', 'release')});
is(rows($c8), 'early canceled', 'and the end');
is(rows($start), 'late queued, early canceled',
    'many changes of one job are its newest state');
is(rows($start, 9, q{false, '{}', '{late}', '{}'}),
    'late queued', 'of a work key');
is(rows($start, 9, q{false, '{one}', '{}', array[t.rid(1)]}),
    'early canceled', 'of a kind or a job');

# --- cursors that are none ---------------------------------------------------

$one->(qq{select count(*) from generate_series(1, 6) x,
    t.submit('free', 'n:' || x)});
is((since($start))[0], 'reset', 'too much has changed since');
is(rows((since($start))[1]), '', 'and where to go on from is said');
my ($epoch, $at) = $c8 =~ /^([^.]+)\.(.+)$/;
for my $bad ('', 'x', $epoch, "$epoch.", "$epoch.9:1:", "$epoch.1:2:3:4",
    "0000000000000000-1.$at", "$epoch.1:99999999999:",
    "$epoch.99999999999999999999:99999999999999999999:", "$at", "$c8.x",
    "$c8.1:1:.5", "$epoch.$at.1:99999999999:.5." . '0' x 8
        . '-0000-7000-8000-' . '0' x 12)
{
    is((since($bad))[0], 'reset', "no cursor: $bad");
}

is($c->psql(q{select interlock.events_snapshot(format('100:900:%s',
        (select string_agg(x::text, ',') from generate_series(101, 160) x)
    )::pg_snapshot)}),
    '100:151:' . join(',', 101 .. 150), 'a snapshot is no longer than that');

# --- many at once ------------------------------------------------------------
#
# Clients do whatever changes a job, and keep their transactions open for a
# while.  A reader follows, by pages of any size, and notes what it has seen;
# now and then it keeps a copy of that with its cursor.  At the end each copy,
# continued from its cursor, is what the tables say.

$c->psql(q{
    create table t.copies (n int, at text, job uuid, doc text);
    create table t.cursors (n int, at text);
    create function t.shows(doc text) returns text language sql immutable as $f$
        select (doc::jsonb - 'delivery')::text
    $f$;
    create procedure t.follow() language plpgsql as $p$
    declare
        v_at    text;
        v_n     int := 0;
        v_over  boolean;
        r       record;
    begin
        create temp table seen (job uuid primary key, doc text);
        select x.cursor into v_at from interlock.events_since(t.demo(), null,
            1, null, true, '{}', '{}', '{}') x;
        commit;
        loop
            v_over := exists (select from t.done);
            for r in select * from interlock.events_since(t.demo(), v_at,
                1 + floor(random() * 20)::int, null, true, '{}', '{}', '{}')
            loop
                v_at := r.cursor;
                if r.what = 'job' then
                    insert into seen values (r.job_id, t.shows(r.doc))
                    on conflict (job) do update set doc = excluded.doc;
                    -- As if the connection broke just here.
                    if random() < 0.02 then
                        v_n := v_n + 1;
                        insert into t.cursors values (v_n, v_at);
                        insert into t.copies select v_n, v_at, s.* from seen s;
                    end if;
                elsif r.what = 'reset' then
                    raise exception 'reset';
                end if;
            end loop;
            commit;
            exit when v_over and r.what = 'at';
        end loop;
        insert into t.cursors values (0, v_at);
        insert into t.copies select 0, v_at, s.* from seen s;
    end
    $p$;

    -- What the copy n, continued from its cursor, and the tables differ in.
    create function t.differs(p_n int) returns bigint
    language plpgsql as $f$
    declare
        v_at  text;
        v     bigint;
        r     record;
    begin
        create temp table now_seen on commit drop as
        select c.job, c.doc from t.copies c where c.n = p_n;
        create unique index on now_seen (job);
        select c.at into v_at from t.cursors c where c.n = p_n;
        loop
            for r in select * from interlock.events_since(t.demo(), v_at,
                1 + p_n % 50, null, true, '{}', '{}', '{}')
            loop
                v_at := r.cursor;
                if r.what = 'job' then
                    insert into now_seen values (r.job_id, t.shows(r.doc))
                    on conflict (job) do update set doc = excluded.doc;
                end if;
            end loop;
            exit when r.what = 'at';
        end loop;
        select count(*) into v
        from (select j.id, t.shows(interlock.job_doc(j, l.progress, l.step))
                  as doc
              from interlock.jobs j
              left join interlock.leases l
                  on l.tenant = j.tenant and l.job_id = j.id
              where j.id > t.rid(900000000000)) x
        full join (select * from now_seen where job > t.rid(900000000000)) y
            on y.job = x.id
        where x.doc is distinct from y.doc;
        drop table now_seen;
        return v;
    end
    $f$;
});

# The jobs of before have ids of this file's, which the reader did not see.
my $follower = fork // die "fork: $!";
if (!$follower) {
    $c->psql('call t.follow()');
    exec 'true';
}
# It has begun when it has its first cursor.
until ($c->psql(q{select count(*) from pg_stat_activity
        where query = 'call t.follow()' and backend_xid is null
            and state = 'active' and xact_start is not null})) {
    select undef, undef, undef, 0.05;
}

my $script = File::Temp->new;
print $script <<'SQL';
\set ms random(0, 12)
begin;
select t.step(:client_id);
\sleep :ms ms
commit;
SQL
close $script;
my $out = `/usr/lib/postgresql/15/bin/pgbench -n -c 8 -j 2 -t $each -f $script -h $c->{dir} -U admin interlock 2>&1`;
is($?, 0, 'the clients ended well') or diag($out);
$c->psql('insert into t.done default values');
waitpid $follower, 0;
is($?, 0, 'the reader ended well') or diag($c->log_text);

my ($jobs, $states, $copies) = split /\|/, $c->psql(q{
    select (select count(*) from interlock.jobs where id > t.rid(900000000000)),
        (select count(distinct status) from interlock.jobs),
        (select count(*) from t.cursors)});
cmp_ok($jobs, '>=', $each, "$jobs jobs");
cmp_ok($states, '>=', 6, "in $states states");
cmp_ok($copies, '>=', 10, "$copies places at which the reader broke off");
is($c->psql(q{select count(*) from t.copies where n = 0
        and job > t.rid(900000000000)}), $jobs,
    'the reader has seen each job');
is($c->psql(q{select string_agg(n || ': ' || d, ', ') from (
        select n, t.differs(n) as d from t.cursors order by n) x
    where d <> 0}), '', 'and wherever it begins anew, it learns all');
is($c->check, '', 'check.sql finds nothing');

done_testing;
