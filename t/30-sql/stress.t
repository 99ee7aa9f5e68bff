#!/usr/bin/perl

# Eight clients submit, claim, renew, finish, lose and recover at random on a
# few dozen work keys, begin effects, decide and redrive, while slots of
# schedules fire for the same keys and their gaps are seen to; then what is left
# is run to its end.  No deadlock, no error, no invariant violated, and the
# decisions add up.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Test::More;

use Cluster;

# So many steps a client: a busy machine takes longer, but does no less.
my $each = $ENV{INTERLOCK_STRESS} // 600;
my $c = Cluster->new;

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
    select t.schedule('shared', '{"cron":"* * * * *","zone":"UTC","kind":"one","work_key":"one:{subject}","subjects":["0","1","2"],"catch_up":"all","catch_up_max":10000,"grace":60}');
    select t.schedule('queued', '{"cron":"*/2 * * * *","zone":"UTC","kind":"lim","work_key":"lim:{subject}:{slot}","subjects":["0","1"],"catch_up":"all","catch_up_max":10000,"grace":60}');
    select t.schedule('dated', '{"cron":"0 * * * *","zone":"UTC","kind":"effw","work_key":"effw:{subject}:{date}","subjects":["a","b"],"catch_up":"all","catch_up_max":10000,"grace":60,"approve_after":86400}');
    select t.schedule('changed', '{"cron":"* * * * *","zone":"UTC","kind":"free","work_key":"free:{slot}"}');
    select t.behind(x, '2 days') from unnest(array['shared', 'queued', 'dated']) x;
    create table t.sample (name text, n bigint, at timestamptz);
    create table t.done ();
    alter role admin set plan_cache_mode = 'force_generic_plan';
    alter role admin set jit = off;
});

# Samples, inside the database, whether any group has more live attempts than
# its limit ever allowed.
my $sampler = fork // die "fork: $!";
if (!$sampler) {
    $c->psql(qq{
        do \$\$
        begin
            while not exists (select from t.done) loop
                insert into t.sample
                select g.group_name, count(*), clock_timestamp()
                from interlock.lease_groups g
                group by 1;
                commit;
                perform pg_sleep(0.002);
            end loop;
        end
        \$\$});
    exec 'true';
}

my $script = File::Temp->new;
print $script "select t.step(:client_id);\n";
close $script;

my $bench = '/usr/lib/postgresql/15/bin/pgbench';
my $out = `$bench -n -c 8 -j 2 -t $each -f $script -h $c->{dir} -U admin interlock 2>&1`;
is($?, 0, 'the clients ended well') or diag($out);
$c->psql('insert into t.done default values');
waitpid $sampler, 0;
is($?, 0, 'the sampler ended well');
my ($steps) = $out =~ /transactions actually processed: (\d+)/;
is($steps // 0, 8 * $each, 'they did all of it') or diag($out);
unlike($out, qr/aborted|ERROR|number of failed transactions: [1-9]/,
    'no client met an error') or diag($out);

is($c->check, '', 'check.sql finds nothing');

my $log = $c->log_text;
unlike($log, qr/deadlock detected/, 'no deadlock');
unlike($log, qr/ERROR:/, 'no error at all in the log');
is($c->psql('select count(*) from interlock.recovery_troubles'), 0,
    'recovery met no trouble');

is($c->psql('select count(*) from (select distinct decision
    from interlock.requests) x'), 8, 'each decision occurred');
is($c->psql(q{select name || ' ' || max(n) from t.sample
        where n > case name when 'three' then 3
            when '{kind=lims}' then 999 else 3 end group by name}), '',
    'no limit was ever exceeded');
cmp_ok($c->psql(q{select count(*) from t.sample where name = 'three'
        and n = 3}), '>', 20, 'though it was reached');
cmp_ok($c->psql(q{select count(distinct status) from interlock.jobs
        where finished_at is not null}), '>=', 5, 'jobs ended in every way');
cmp_ok($c->psql(q{select count(distinct what) from interlock.actions
        where what in ('job_decide', 'redrive', 'effect_resolve')}), '==', 3,
    'people decided');
cmp_ok($c->psql(q{select count(*) from interlock.slots}), '>', 20,
    'slots fired');
cmp_ok($c->psql(q{select count(distinct state) from interlock.slots}), '>=',
    3, 'and met what there was');
cmp_ok($c->psql(q{select count(distinct what) from interlock.actions
        where what in ('gap_approve', 'work_rerun', 'schedule_run',
            'schedule_pause')}), '>=', 2, 'people saw to them');
is($c->psql('select sum(n) from (select count(*) as n
        from interlock.requests group by decision) x'),
    $c->psql('select count(*) from interlock.requests'),
    'decisions add up to the requests');
is($c->psql(q{select count(*) from interlock.requests
        where decision in ('accepted', 'buffered', 'replaced', 'parked')}),
    $c->psql('select count(*) from interlock.jobs'),
    'as many jobs as admissions');

# G7: every accepted job ends.  Nobody renews any more; workers go on.
$c->psql(q{
    do $do$
    declare
        h  record;
    begin
        update interlock.leases
        set expires_at = least(expires_at, clock_timestamp());
        for i in 1 .. 10000 loop
            perform interlock.recover(100);
            perform interlock.limits_sweep(1000);
            perform interlock.effect_resolve(t.demo(), e.id, 'happened', 'me',
                'why', 1, 't')
            from interlock.effects e
            where e.state in ('unknown', 'needs_human');
            perform interlock.job_decide(t.demo(), j.id, 'retry', null, 'me',
                'why', 1, 't')
            from interlock.jobs j where j.status = 'held';
            select array_agg(tenant_create) as tenant, array_agg(job_id)
                as job, array_agg(attempt_id) as attempt,
                array_agg(fence) as fence, count(*)::int as n
            into h
            from interlock.tenant_create('demo'),
                t.claim('free,skip,one,ret,first,all,park,rep,lim,lims,fair,'
                    'hold,effw,effj', 200);
            exit when h.n = 0;
            perform interlock.finish(h.tenant, h.job, h.attempt, h.fence,
                array_fill('complete'::text, array[h.n]),
                array_fill('\x01'::bytea, array[h.n]),
                array_fill(null::text, array[h.n]),
                array_fill(null::text, array[h.n]),
                array_fill(null::bigint, array[h.n]),
                array_fill(null::bigint, array[h.n]),
                array_fill(null::text, array[h.n]),
                array_fill(true, array[h.n]),
                array_fill(null::text, array[h.n]),
                array_fill(null::text, array[h.n]),
                array_fill(null::int, array[h.n]));
        end loop;
    end
    $do$;
});
is($c->psql('select count(*) from interlock.jobs where finished_at is null'),
    0, 'every accepted job ends');
is($c->check, '', 'check.sql finds nothing at the end');
cmp_ok($c->psql(q{select count(*) from interlock.attempts
        where status in ('checking', 'held')}), '>', 0,
    'some were checked or held');
diag($c->psql(q{select string_agg(status || ' ' || n, ', ' order by status)
    from (select status, count(*) as n from interlock.jobs
          group by 1) x}));

done_testing;
