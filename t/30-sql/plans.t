#!/usr/bin/perl

# Plans that are made while the tables are empty stay in a session for good
# (force_generic_plan).  Every call is made once on empty tables, and no plan
# of it may read a table as a whole or find rows by the tenant alone.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Test::More;

use Cluster;

my $c = Cluster->new;

# Nobody counts the tables meanwhile: they are to look as empty as at first.
$c->conf('autovacuum = off');
$c->psql('select pg_reload_conf()');

$c->psql(q{select t.policy('one', 'overlap buffer_one, when_completed return, allow_fresh true')});

$c->psql(q{
    select t.policy('rep', 'overlap replace');
    select t.kind('all', '{"overlap":"buffer_all","max_waiting":1,"overflow":"park"}');
    select t.kind('lim', '{"overlap":"buffer_first","key_template":"l:{site}:{n}","limits":["crm:{site}","r"],"fair_by":"site","max_queued":50}');
    select t.kind('new', '{"overlap":"allow","order":"newest"}');
    select t.kind('hold', '{"overlap":"buffer_all","on_lost":"hold"}');
    select t.kind('look', '{"overlap":"skip","on_lost":"check","result_check":{"type":"worker"}}');
    select interlock.limit_put(t.demo(), 'crm:{site}', '{"capacity":1}');
    select interlock.limit_put(t.demo(), 'r', '{"capacity":1,"start_rate":5}');
    select interlock.tenant_bound(t.demo(), 500);
    select t.kind('chk', '{"on_lost":"check","key_template":"c:{n}","result_check":{"type":"http","url":"https://h/{n}","found":{"status":[200]}}}');
    select t.kind('chw', '{"on_lost":"check","result_check":{"type":"worker"}}');
    select t.kind('result-check', '{"overlap":"skip"}');
});

# As interlock_service's sessions plan; helpers are an administrator's.
my $mark = length $c->log_text;
$c->psql(q{
    load 'auto_explain';
    set auto_explain.log_min_duration = 0;
    set auto_explain.log_nested_statements = on;
    set plan_cache_mode = force_generic_plan;
    set jit = off;

    select t.submit('one', 'p:1', 'a', 'i1', version => 1);
    select t.submit('one', 'p:1', 'a', 'i1', version => 1);
    select t.submit('one', 'p:1', 'a', 'i1', 'other');
    select t.submit('one', 'p:1', 'b', 'i2', version => 2, wait => false);
    select t.submit('one', 'p:1', 'b', 'i3', version => 1);
    select t.take('w', 'one');
    select t.renew('w');
    select t.renew('w', '{}');
    select t.finish('w', 'complete');
    select t.finish('w', 'complete');
    select t.take('w', 'one');
    select t.finish('w', 'fail');
    select t.due('p:1');
    select t.take('w', 'one');
    select interlock.unclaim(array[tenant], array[attempt]) from t.held;
    select t.take('w', 'one');
    select t.expire('w');
    select interlock.recover(9);
    select interlock.job_get(array[tenant], array[job]) from t.held;
    select interlock.work_get(tenant, 'p:1') from t.held;
    select interlock.work_result(tenant, 'p:1', null) from t.held;
    select interlock.work_revisions(tenant, 'p:1', 9, null) from t.held;
    select interlock.work_revisions(tenant, 'p:1', 9, 2) from t.held;
    select interlock.runnable(array[tenant], array['one']) from t.held;
    select interlock.prune(9);
    select t.edge(1, 'duplicate', 'i1', 'one', 'p:1', job) from t.held;
    select t.edge(2, 'skipped', 'i9', 'one', 'p:1', job) from t.held;
    select interlock.edge_stats();

    select t.submit('chw', 'chw');
    select t.submit('chk', 'c:' || x) from generate_series(1, 2) x;
    select t.take('u', 'chk');
    select t.expire('u');
    select t.take('w', 'chk');
    select t.take('v', 'chw');
    select t.expire('w');
    select t.expire('v');
    select interlock.recover(9);
    select interlock.checks_answer(array[c.tenant], array[c.check_id], array[c.try], array['unclear'], array['x'], array[null], array[null]) from interlock.checks_take(1) c;
    select interlock.checks_answer(array[c.tenant], array[c.check_id], array[c.try], array['found'], array['x'], array[null], array[null]) from interlock.checks_take(9) c;
    select interlock.checks_hand_out(9);
    select interlock.checks_unanswered(9);
    select t.take('u', 'result-check');
    select t.finish('u', 'complete', '{"answer":"found"}');

    select t.submit('rep', 'r:1', 'A');
    select t.take('w', 'rep');
    select t.submit('rep', 'r:1', 'B');
    select t.submit('rep', 'r:1', 'C');
    select t.finish('w', 'complete');
    select t.finish('w', 'fail');
    select t.submit('rep', 'r:1', 'D');
    select t.submit('all', 'a:1', p, id => ascii(p)) from unnest(array['A','B','C','D']) p;
    select interlock.job_cancel(t.demo(), t.rid(66), 'a', 'b', 1, 'c', t.rid(77));
    select t.submit('lim', 'l:1:' || x) from generate_series(1, 4) x;
    select t.submit('lim', 'l:1:4', 'B');
    select t.submit('new', 'n:' || x) from generate_series(1, 2) x;
    select t.claim('lim,new', 1);
    select t.take('w', 'lim');
    select t.take('v', 'lim');
    select t.finish('w', 'release');
    select t.take('w', 'lim');
    select t.finish('w', 'complete');
    select interlock.limits_sweep(100);
    select interlock.expire(9);
    select interlock.jobs_list(t.demo(), null, null, null, null, null, 9, null);
    select interlock.jobs_list(t.demo(), null, null, 'a:1', null, null, 9, null);
    select interlock.events_since(t.demo(), cursor, 9, 99, all_of, '{all}', '{a:1}', '{}') from interlock.events_since(t.demo(), null, 9, null, true, '{}', '{}', '{}') x, unnest(array[true, false]) all_of;
    select interlock.events_since(t.demo(), regexp_replace(cursor, '[.].*', '.3:4:3'), 9, null, true, '{}', '{}', '{}') from interlock.events_since(t.demo(), null, 9, null, true, '{}', '{}', '{}') x;
    select interlock.events_alive(array[t.demo()], array[1::bigint], array['\x00'::bytea], 1);
    select interlock.jobs_list(t.demo(), null, x, null, null, now(), 9, t.rid(1)::text) from unnest(array['running', 'failed', 'queued', 'succeeded']) x;
    select interlock.jobs_list(t.demo(), 'all', 'queued', 'a:1', null, now(), 9, t.rid(65)::text);
    select interlock.jobs_list(t.demo(), 'all', 'queued', null, null, now(), 9, null);
    select interlock.requests_list(t.demo(), null, null, null, null, null, null, null, 9, null);
    select interlock.requests_list(t.demo(), 'api', 'accepted', 'all', 'a:1', null, now(), now(), 9, t.rid(65)::text);
    select interlock.requests_list(t.demo(), null, null, null, null, 'i2', null, null, 9, null);
    select interlock.works_list(t.demo(), 'a:', 'all', x, 9, null) from unnest(array[null, 'idle', 'running', 'parked']) x;
    select interlock.leases_list(t.demo(), 'lim', 'v', 9, null);
    select interlock.actions_list(t.demo(), 'job_cancel', 'a', null, null, 9, null);
    select interlock.kind_list(t.demo(), 9, null);
    select interlock.search(t.demo(), x) from unnest(array['a:1', 'i2', t.rid(65)::text, t.rid(65) || '-1']) x;
    select interlock.job_payload(t.demo(), t.rid(65));
    select interlock.job_revoke(t.demo(), job, 'a', 'b', 1, 'c', t.rid(76)) from t.held where who = 'v';
    select interlock.explain(t.demo(), 'all', '{"work_key":"a:1"}');
    select interlock.explain(t.demo(), 'lim', '{"work_key":"l:1:7"}');
    select interlock.work_publish(t.demo(), 'p:1', 1, 'a', 'b', 1, 'c', t.rid(78));
    select interlock.results_list(t.demo(), 'p:', 9, null);
    select interlock.limit_put(t.demo(), 'r', '{"capacity":3}');
    select interlock.limit_delete(t.demo(), 'r');

    select t.submit('hold', 'h:1', id => 70);
    select t.submit('hold', 'h:1', 'B', id => 71);
    select t.take('w', 'hold');
    select t.expire('w');
    select interlock.recover(9);
    select t.finish('w', 'complete');
    select interlock.job_decide(t.demo(), t.rid(70), 'retry', null, 'a', 'b', 1, 'c');
    select t.take('w', 'hold');
    select t.finish('w', 'fail', p_retryable => false);
    select interlock.job_decide(t.demo(), t.rid(70), 'retry', null, 'a', 'b', 1, 'c');
    select doc::json ->> 'plan_id' as plan
    from interlock.redrive_plan(t.demo(), '{}', 'a', 'b', 1, 'c') \gset
    select interlock.redrive_plan(t.demo(), '{"work_key":"h:1"}', 'a', 'b', 1, 'c');
    select interlock.redrive_plan(t.demo(), format('{"job_ids":["%s"]}', t.rid(70)), 'a', 'b', 1, 'c');
    select interlock.redrive(t.demo(), :'plan', 'a', 'b', 1, 'c', 5);
    select t.take('w', 'hold');
    select t.expire('w');
    select interlock.recover(9);
    select interlock.job_decide(t.demo(), t.rid(71), 'succeed', null, 'a', 'b', 1, 'c');
    select t.submit('look', 'k:1', id => 72);
    select t.take('w', 'look');
    select t.expire('w');
    select interlock.recover(9);
    select interlock.job_checked(t.demo(), t.rid(72), 'not_found', null, null);
    select t.take('w', 'look');
    select t.expire('w');
    select interlock.recover(9);
    select interlock.job_checked(t.demo(), t.rid(72), 'found', null, null);
    select interlock.job_resume(t.demo(), t.rid(72));
    select interlock.key_go_on(t.demo(), 'k:1');
    select interlock.audit(t.demo(), 'h:1', 9, null);
    select interlock.audit(t.demo(), 'h:1', 9, '0.1.a');
    select interlock.kind_advice(t.demo(), 'hold', 60);
});

# Effects: each of their calls, on tables as empty as they were.
$c->psql(q{
    select t.providers();
    select t.effect_kind('told', '{"evidence":{"source":"stripe","match":{"effect_id":"/e"},"confirmed":{"pointer":"/t","equals":["y"]}}}');
    select t.kind('eff', '{"overlap":"buffer_all","effect_scope":"work","delivery_effects":["a"]}');
});
$c->psql(q{
    load 'auto_explain';
    set auto_explain.log_min_duration = 0;
    set auto_explain.log_nested_statements = on;
    set plan_cache_mode = force_generic_plan;
    set jit = off;

    select t.submit('eff', 'e:1', 'A');
    select t.submit('eff', 'e:1', 'B');
    select t.take('w', 'eff');
    select t.begin('w', 'a', 'keys', 'd');
    select t.begin('w', 'a', 'keys', 'd');
    select t.outcome('w', 'a', 'unknown');
    select t.begin('w', 'a', 'keys', 'd', p_compensates => (t.effect('a')).id);
    select t.outcome('w', 'a', 'confirmed', 'r');
    select t.begin('w', 'a', 'keys', 'd');
    select t.begin('w', 'b', 'sure');
    select t.older('b', '6 s');
    select t.overdue();
    select t.look('b', 'not_found');
    select t.look('b', 'found');
    select t.begin('w', 'c', 'mute');
    select t.expire('w');
    select interlock.recover(9);
    select t.older('c', '6 s');
    select t.overdue();
    select t.resolve('c', 'happened');
    select t.take('w', 'eff');
    select t.begin('w', 'd', 'ask');
    select t.finish('w', 'complete');
    select interlock.effect_check_now(t.demo(), (t.effect('d')).id, 'a', 'b', 1, 'c');
    select interlock.effects_overdue(9);
    select interlock.effect_get(t.demo(), (t.effect('a')).id);
    select interlock.effects_list(t.demo(), 'e:1', null, null, null, null, 9, null);
    select interlock.effects_list(t.demo(), null, 'unknown', null, null, null, 9, null);
    select interlock.effects_list(t.demo(), null, null, null, null, null, 9, null);
    select interlock.work_get(t.demo(), 'e:1');
    select interlock.effects_of_scope(t.demo(), job) from t.held;
    select interlock.job_get(array[tenant], array[job]) from t.held;
    select interlock.audit_effects(t.demo(), 'e:1');
    select interlock.audit_effects_final(t.demo(), 'e:1');
    select interlock.effects_seal(array_agg(tenant), array_agg(n), array_agg(history_id), array_agg(coalesce(prev, '\\x')), array_agg(sha256(canonical))) from interlock.effects_unsealed(9);
    select t.submit('new', 'n:hook', json_build_object('e', (t.effect('d')).id, 't', 'y')::text, source => 'stripe');
    select interlock.effects_evidence(9);
    select t.effect_kind('told', '{"evidence":null}');
    select interlock.effects_chain(t.demo(), 0, 9);
    select interlock.effects_chain_rest(t.demo(), 0, 9);
});

# Schedules: each of their calls.
$c->psql(q{
    select t.kind('tight', '{"overlap":"skip","max_queued":2,"effect_scope":"work"}');
    select t.plan_slots('s', 'tight', t.cron_ago('5 minutes'), 'a b c', ',"catch_up":"all","catch_up_max":2,"grace":60,"jitter":1');
    select t.plan_slots('m', 'tight', '* * * * *', 'a', ',"approve_after":1');
    select t.kind('shared', '{"overlap":"buffer_one"}');
    select t.schedule('d', '{"cron":"* * * * *","zone":"UTC","kind":"shared","work_key":"d:{subject}:{date}","subjects":["a","b"],"catch_up":"all"}');
});
$c->psql(q{
    load 'auto_explain';
    set auto_explain.log_min_duration = 0;
    set auto_explain.log_nested_statements = on;
    set plan_cache_mode = force_generic_plan;
    set jit = off;

    select t.behind('s', '10 days');
    select t.behind('m', '10 days');
    select t.scan(2) from generate_series(1, 4);
    select t.now_due('s');
    select t.take('w', 'tight');
    select t.scan();
    select t.now_due('s');
    select interlock.gap_scan(9);
    select t.finish('w', 'fail', p_retryable => false);
    select t.now_due('s');
    select interlock.gap_scan(90);
    select t.take('w', 'tight');
    select t.finish('w', 'complete');
    select t.now_due('s');
    select interlock.gap_scan(90);
    select interlock.gaps_list(t.demo(), null, null, 9, null);
    select interlock.gaps_list(t.demo(), 's', null, 9, null);
    select interlock.gap_approve(t.demo(), id, 'me', 'why', 1, 'op', t.rid(81 + n)) from (select id, row_number() over (order by schedule, id) as n from interlock.gaps where state = 'open' limit 4) g;
    select interlock.gap_dismiss(t.demo(), id, 'me', 'why', 1, 'op', t.rid(91)) from interlock.gaps where state = 'open' limit 1;
    select interlock.schedule_slots(t.demo(), 's', null, null, 9, null);
    select interlock.schedule_slots(t.demo(), 's', '2026-07-01', '2026-07-02', 9, '1.a');
    select interlock.schedule_pause(t.demo(), 'm', 'me', 'why', 1, 'op', t.rid(92));
    select interlock.schedule_resume(t.demo(), 'm', 'me', 'why', 1, 'op', t.rid(93));
    select interlock.schedule_put(t.demo(), 's', '{"grace":70,"subjects":["a","b"]}');
    select interlock.schedule_get(t.demo(), 's');
    select interlock.schedule_list(t.demo());
    select interlock.work_impact(t.demo(), work_key) from interlock.jobs where kind = 'tight' limit 1;
    select t.rerun(work_key) from interlock.jobs where kind = 'tight' and finished_at is not null limit 1;
    select interlock.slot_impact(t.demo(), 's', max(business_date)::text) from interlock.slots where schedule = 's';
    select interlock.slot_rerun(t.demo(), 's', d, o, i.doc::json ->> 'impact_id', 'me', 'why', 1, 'op', t.rid(94 + length(o)), 9) from (select max(business_date)::text as d from interlock.slots where schedule = 's') x cross join unnest(array['failed', 'missing', 'all']) o cross join lateral interlock.slot_impact(t.demo(), 's', d) i;
    select t.run('s');
    select interlock.schedule_backfill_plan(t.demo(), 's', '2026-07-01', '2026-07-02', null, 'me', 'why', 1, 'op');
    select interlock.schedule_backfill(t.demo(), 's', id, 'me', 'why', 1, 'op', 9) from interlock.schedule_plans where what = 'backfill';
    select t.behind('d', '5 minutes');
    select t.scan(2) from generate_series(1, 2);
    select t.take('w', 'shared');
    select t.finish('w', 'fail', p_retryable => false);
    select t.scan();
    select t.now_due('d');
    select interlock.gap_scan(90);
    select interlock.schedule_slots(t.demo(), 'd', null, null, 9, null);
    select interlock.schedule_days(t.demo(), 'd', null, null);
    select interlock.schedule_list(t.demo());
    select t.see('d');
    select t.again('d', 1);
    select interlock.schedule_backfill_plan(t.demo(), 'd', current_date - 2, current_date - 1, null, 'me', 'why', 1, 'op');
    set auto_explain.log_min_duration = -1;
    update interlock.schedule_plans set prune_at = clock_timestamp();
    set auto_explain.log_min_duration = 0;
    select interlock.prune(2), interlock.prune(90);
    select interlock.schedule_delete(t.demo(), 's');
    select t.now_due('s');
    select t.scan();
    select interlock.schedule_stats();
});

# Alerts, as all their tables were when the first one was made.
$c->psql(q{
    load 'auto_explain';
    set auto_explain.log_min_duration = 0;
    set auto_explain.log_nested_statements = on;
    set plan_cache_mode = force_generic_plan;
    set jit = off;

    select interlock.alert_put(t.demo(), 'a', '{"url":"https://h/","secret":"@f"}');
    select t.kind('old', '{"overlap":"allow","alert_at":1,"stop_at":1}');
    select t.submit('old', 'al:' || x) from generate_series(1, 3) x;
    set auto_explain.log_min_duration = -1;
    update interlock.jobs set run_at = run_at - interval '9 s' where kind = 'old';
    set auto_explain.log_min_duration = 0;
    select interlock.alert_scan(9);
    select interlock.resume(t.demo(), 'kind', 'old', 'a', 'b', 1, 'c');
    select t.take('w', 'old');
    select t.finish('w', 'fail', p_retryable => false);
    select t.begin('w', 'al', 'mute');
    update interlock.alert_scans set next_at = '-infinity', slow_at = '-infinity';
    select interlock.alert_scan(9);
    select interlock.alert_answer(array[x.tenant], array[x.event_id], array[x.try], array[503], array['no']) from interlock.alert_take(9) x;
    set auto_explain.log_min_duration = -1;
    update interlock.alerts set due_at = '-infinity', hold_until = null;
    update interlock.alert_deliveries set due_at = '-infinity';
    set auto_explain.log_min_duration = 0;
    select interlock.alert_answer(array[x.tenant], array[x.event_id], array[x.try], array[200], array['']) from interlock.alert_take(9) x;
    select interlock.job_decide(t.demo(), j.id, 'succeed', null, 'a', 'b', 1, 'c') from interlock.jobs j where j.kind = 'old' and j.status = 'failed';
    update interlock.alert_scans set next_at = '-infinity', slow_at = '-infinity';
    select interlock.alert_scan(9);
    select interlock.alert_get(t.demo(), 'a');
    select interlock.pause(t.demo(), 'source', 'shop', 'a', 'b', 1, 'c');
    select t.submit('old', 'al:9', source => 'shop');
    select interlock.source_list(t.demo());
    select interlock.alert_delete(t.demo(), 'a');

    select interlock.token_create(t.demo(), 'o', 'operator', sha256('o'));
    select interlock.session_begin(sha256('o'), sha256('1'), null, 1000, 9000);
    select interlock.session_begin(sha256('o'), sha256('2'), sha256('1'), 1000, 9000);
    select interlock.session_find(sha256('2'), 1000, false);
    select pg_sleep(0.05);
    select interlock.session_find(sha256('2'), 1000, true);
    select interlock.session_end(sha256('2'));
    select interlock.prune(9);
    select interlock.token_revoke(t.demo(), min(a.id)) from interlock.api_tokens a where a.hash = sha256('o');
});

# What waits for a person, and how work stands.
$c->psql(q{
    load 'auto_explain';
    set auto_explain.log_min_duration = 0;
    set auto_explain.log_nested_statements = on;
    set plan_cache_mode = force_generic_plan;
    set jit = off;

    select interlock.inbox_list(t.demo(), null, null, null, null, 9, null);
    select interlock.inbox_list(t.demo(), 'kim', null, null, null, 9, '1.a');
    select interlock.inbox_list(t.demo(), null, 'job', null, null, 9, null);
    select interlock.inbox_list(t.demo(), null, null, null, 'tight', 9, null);
    select interlock.inbox_assign(t.demo(), x.doc::json ->> 'id', 'kim', null, 'a', null, 1, 'b', t.rid(600 + n)) from (select doc, row_number() over () as n from interlock.inbox_list(t.demo(), null, null, null, null, 90, null)) x;
    select interlock.inbox_dismiss(t.demo(), x.doc::json ->> 'id', 'a', 'b', 1, 'c') from interlock.inbox_list(t.demo(), null, null, 'failed', null, 1, null) x;
    select interlock.overview(t.demo());
    select interlock.series_sweep(9);
    select interlock.series(t.demo(), x, null, 24) from unnest(array['queue', 'decisions']) x;
    select interlock.series(t.demo(), x, 'tight', 24) from unnest(array['queue', 'decisions']) x;
    select interlock.config_facts(t.demo());
    select interlock.prune(9);
});

# What may be read whole: the few rows that are live, and what is due.
my %whole = (
    'leases recover' => 1,         # recovery scans the live attempts
    'leases events_changed' => 1,  # and so do event streams
    'recovery_troubles recover' => 1,
);

my $small = qr/^(?:held|effects_chain_ends|effect_kinds|effect_kind_versions|evidence_sources|sent|asked|pg_\w+|tenants|kinds|kind_versions|pauses|kind_stops|alerts|alert_scans|installation|migrations|limits|schedules|schedule_versions|edge_zones|inbox_sweeps)$/;
# By the tenant alone on purpose: a bounded look at the tenant's queue, what of
# it runs, and operators' rare calls about the groups of a limit; and the tests'
# helpers.
my $meant = qr/limit (?:p_bound|v_bound|v_span)|offset v_span|where l\.tenant = p_tenant group by l\.kind|where (?:e\.)?name = p_name|any \(v_ids\)|limit_name = p_name|limit_of\(g\.group_name\)|p_reason = 'tenant_full'|where s\.schedule = p_name and s\.check_at|where l\.schedule = p_name|l\.told >= pg_snapshot_xmin|from interlock\.leases l group by 1|insert into t\.seen|from interlock\.(?:gaps|schedule_plans|jobs|slots) where (?:state|what|kind|schedule) = '/;

my ($plans, $scans) = (0, 0);
my @bad;
my ($text, $indexed);

for my $line (split /\n/, substr $c->log_text, $mark) {
    if ($line =~ /duration: .* plan:$/) {
        $plans++;
        $text = '';
        next;
    }
    $text .= $line if $line =~ /^\s*Query Text:/ || $text !~ /\(cost=/;

    if ($line =~ /(Seq Scan|Index (?:Only )?Scan|Bitmap Heap Scan)(?: using (\w+))? on (\w+)/) {
        my ($how, $index, $table) = ($1, $2, $3);
        $indexed = undef;
        next if $table =~ $small || $text =~ $meant;
        $scans++;
        if ($how eq 'Seq Scan') {
            push @bad, "$line\n      in $text"
                unless $text =~ /l\.expires_at <= |leases l group by 1|t\.(next_try|attempt_id)|enable_seq/;
        } else {
            $indexed = "$line\n      in $text";
        }
    } elsif ($line =~ /Index Cond: \(tenant = [^)]*\)$/ && $indexed) {
        push @bad, "$indexed\n$line";
    }
}

cmp_ok($plans, '>', 100, "plans were seen ($plans, $scans scans)");
is(join("\n\n", @bad), '', 'no table is read whole, nor by the tenant alone');
is($c->check, '', 'check.sql finds nothing');

done_testing;
