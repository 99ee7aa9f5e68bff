-- grants.sql: who may do what.  The list below is the whole interface.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

create temp table service (f text collate "C");
insert into service values
    ('actions_list'),
    ('alert_answer'),
    ('alert_delete'),
    ('alert_get'),
    ('alert_list'),
    ('alert_put'),
    ('alert_scan'),
    ('alert_take'),
    ('audit'),
    ('button_work'),
    ('checks_answer'),
    ('checks_hand_out'),
    ('checks_take'),
    ('checks_unanswered'),
    ('claim'),
    ('config_facts'),
    ('edge_record'),
    ('effect_begin'),
    ('effect_check_now'),
    ('effect_get'),
    ('effect_kind_delete'),
    ('effect_kind_get'),
    ('effect_kind_list'),
    ('effect_kind_put'),
    ('effect_outcome'),
    ('effect_resolve'),
    ('effects_chain'),
    ('effects_chain_rest'),
    ('effects_evidence'),
    ('effects_list'),
    ('effects_overdue'),
    ('effects_seal'),
    ('effects_unsealed'),
    ('events_alive'),
    ('events_since'),
    ('expire'),
    ('explain'),
    ('finish'),
    ('gap_approve'),
    ('gap_dismiss'),
    ('gap_scan'),
    ('gaps_list'),
    ('inbox_assign'),
    ('inbox_dismiss'),
    ('inbox_list'),
    ('job_cancel'),
    ('job_decide'),
    ('job_get'),
    ('job_payload'),
    ('job_revoke'),
    ('jobs_list'),
    ('kind_advice'),
    ('kind_delete'),
    ('kind_get'),
    ('kind_list'),
    ('kind_put'),
    ('leases_list'),
    ('limit_delete'),
    ('limit_get'),
    ('limit_list'),
    ('limit_put'),
    ('limits_sweep'),
    ('overview'),
    ('pause'),
    ('prune'),
    ('ready'),
    ('recover'),
    ('redrive'),
    ('redrive_plan'),
    ('renew'),
    ('requests_list'),
    ('results_list'),
    ('resume'),
    ('runnable'),
    ('source_list'),
    ('search'),
    ('works_list'),
    ('schedule_backfill'),
    ('schedule_backfill_plan'),
    ('schedule_days'),
    ('schedule_delete'),
    ('schedule_due'),
    ('schedule_get'),
    ('schedule_list'),
    ('schedule_pause'),
    ('schedule_put'),
    ('schedule_resume'),
    ('schedule_run'),
    ('schedule_scan'),
    ('schedule_slots'),
    ('series'),
    ('series_sweep'),
    ('session_begin'),
    ('session_end'),
    ('session_find'),
    ('slot_impact'),
    ('slot_rerun'),
    ('stats'),
    ('submit'),
    ('tenant_find'),
    ('ticket_check'),
    ('token_find'),
    ('unclaim'),
    ('wake_send'),
    ('work_get'),
    ('work_impact'),
    ('work_publish'),
    ('work_rerun'),
    ('work_result'),
    ('work_revisions');

create temp view funcs as
select p.oid, p.proname::text as name, p.prosecdef, p.proconfig, p.proowner
from pg_proc p
where p.pronamespace = 'interlock'::regnamespace;

select results_eq(
    $$select name from funcs
      where has_function_privilege('interlock_service', oid, 'execute')
      order by name$$,
    'select f from service order by f',
    'interlock_service executes exactly the listed functions');
select is_empty(
    $$select f.name from funcs f, pg_proc p, aclexplode(coalesce(p.proacl,
          acldefault('f', p.proowner))) a
      where p.oid = f.oid and a.grantee = 0$$,
    'no function is executable by PUBLIC');
select is_empty(
    $$select name from funcs
      where has_function_privilege('interlock_audit', oid, 'execute')$$,
    'interlock_audit executes none');
select is_empty(
    $$select name from funcs where not prosecdef
      and name in (select f from service)$$,
    'what the service calls runs as the owner');
select is_empty(
    $$select name from funcs where prosecdef
      and not coalesce(proconfig, '{}') @> array[
          'search_path=pg_catalog, interlock, pg_temp']$$,
    'every one of these pins its search path');
-- Row checks run within the writing functions, under their path; a SET clause
-- would cost more than the check.
select is_empty(
    $$select name from funcs where name not like '%\_valid'
      and not exists (
          select from unnest(proconfig) c where c like 'search_path=%')$$,
    'so do the others, but for row checks');
select is_empty(
    $$select name from funcs
      where proowner <> 'interlock_owner'::regrole$$,
    'interlock_owner owns them');

create temp table rels as
select c.oid, c.relname::text as name, c.relkind
from pg_class c
where c.relnamespace = 'interlock'::regnamespace
    and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f');

select cmp_ok((select count(*)::int from rels where relkind = 'r'), '>=', 15,
    'the tables are there');
select is_empty(
    $$select name from rels
      where relkind <> 'S'
          and has_any_column_privilege('interlock_service', oid,
                  'select, insert, update, references')
          or relkind <> 'S'
          and has_table_privilege('interlock_service', oid,
                  'delete, truncate, trigger')$$,
    'interlock_service touches no table and no view');
select is_empty(
    $$select name from rels
      where case when relkind = 'S' then has_sequence_privilege(
          'interlock_service', oid, 'usage, select, update') end$$,
    'nor a sequence');
select is_empty(
    $$select name from rels
      where relkind <> 'S' and (
          has_table_privilege('interlock_audit', oid,
              'insert, update, delete, truncate, references, trigger')
          or has_any_column_privilege('interlock_audit', oid,
              'insert, update, references'))$$,
    'interlock_audit changes nothing');
select results_eq(
    $$select name from rels
      where relkind <> 'S'
          and has_any_column_privilege('interlock_audit', oid, 'select')
      order by name$$,
    $$select name from rels where relkind = 'v' order by name$$,
    'and reads the views only');
select is_empty(
    $$select name from rels r, pg_class c, aclexplode(coalesce(c.relacl,
          acldefault('r', c.relowner))) a
      where c.oid = r.oid and a.grantee = 0 and r.relkind <> 'S'$$,
    'PUBLIC has nothing on them');
select is_empty(
    $$select s, p from unnest(array['interlock_service',
                                    'interlock_audit']) s,
          unnest(array['create']) p
      where has_schema_privilege(s, 'interlock', p)
          or has_schema_privilege(s, 'public', p)
          or has_database_privilege(s, current_database(), p)
          or has_database_privilege(s, current_database(), 'temp')$$,
    'neither creates anything here');
select is_empty(
    $$select rolname from pg_roles where rolname like 'interlock%'
      and (rolsuper or rolcreatedb or rolcreaterole or rolreplication
           or rolbypassrls)$$, 'no role has a power of its own');
select is_empty(
    $$select column_name from information_schema.columns
      where table_schema = 'interlock' and table_name like 'audit%'
          and column_name in ('hash', 'payload', 'checkpoint')$$,
    'no view shows a token''s hash or a payload');

-- Tried, not only looked up.
set local role interlock_service;
select throws_ok('select * from interlock.jobs', '42501', null,
    'the service cannot read a table');
select throws_ok('delete from interlock.leases', '42501', null,
    'nor delete from one');
select throws_ok($$select interlock.tenant_create('x')$$, '42501', null,
    'nor call an owner''s function');
select throws_ok('select * from interlock.audit_jobs', '42501', null,
    'nor read the audit');
select lives_ok('select * from interlock.ready()', 'but what is listed');
reset role;
set local role interlock_audit;
select lives_ok('select * from interlock.audit_jobs',
    'the audit reads a view');
select throws_ok('select * from interlock.jobs', '42501', null,
    'but not the table');
select throws_ok('select * from interlock.stats()', '42501', null,
    'and calls nothing');
reset role;

-- Whatever a caller puts in front of it.
select t.kind('free', '{"overlap":"allow"}');
create temp table jobs (id int);
create temp table leases (id int);
set local search_path = pg_temp, t, tap, interlock, pg_catalog;
select is((select outcome from t.submit('free', 'g:1')), 'ok',
    'tables of the same name in the caller''s path change nothing');
set local search_path = tap, t, pg_catalog;

select * from finish();
rollback;
