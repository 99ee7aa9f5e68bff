-- kinds.sql: policies, their fields and versions.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

create function pg_temp.put(p_doc text, p_name text default 'k')
returns table (problem text, detail text, doc text) language sql as $$
    select * from interlock.kind_put(interlock.tenant_create('demo'),
                                     p_name, p_doc)
$$;

create temp table bad (n int generated always as identity, doc text,
    problem text, detail text);
copy bad (doc, problem, detail) from stdin with (delimiter '|');
{"lease_seconds":0}|field-invalid|"lease_seconds" must be between 1 and 86400
{"lease_seconds":-5}|field-invalid|"lease_seconds" must be between 1 and 86400
{"lease_seconds":1.5}|field-invalid|"lease_seconds" must be a whole number
{"lease_seconds":1e3}|field-invalid|"lease_seconds" must be a whole number
{"lease_seconds":"30"}|field-invalid|"lease_seconds" must be a whole number
{"lease_seconds":null}|field-invalid|"lease_seconds" may not be null
{"lease_seconds":99999999999999999999999}|field-invalid|"lease_seconds" must be a whole number
{"max_attempts":0}|field-invalid|"max_attempts" must be between 1 and 10000
{"result_ttl":-1}|field-invalid|"result_ttl" must be between 0 and 3153600000
{"allow_fresh":1}|field-invalid|"allow_fresh" must be true or false
{"overlap":"queue"}|field-invalid|"overlap" must be one of allow, skip, buffer_one, buffer_first, buffer_all, replace
{"overlap":["skip"]}|field-invalid|"overlap" must be one of allow, skip, buffer_one, buffer_first, buffer_all, replace
{"when_completed":"maybe"}|field-invalid|"when_completed" must be one of run, return
{"priority":5000}|field-invalid|"priority" must be between -100 and 100
{"priority":-101}|field-invalid|"priority" must be between -100 and 100
{"overflow":"drop"}|field-invalid|"overflow" must be one of reject, park
{"max_waiting":0}|field-invalid|"max_waiting" must be between 1 and 1000000
{"max_queued":0}|field-invalid|"max_queued" must be between 1 and 100000000
{"max_wait":-3}|field-invalid|"max_wait" must be between 1 and 31536000
{"cancel_grace":1e9}|field-invalid|"cancel_grace" must be a whole number
{"order":"random"}|field-invalid|"order" must be one of oldest, newest, deadline
{"limits":"crm"}|field-invalid|"limits" must be an array
{"limits":[7]}|field-invalid|"limits" must be an array of strings
{"limits":["a","a"]}|field-invalid|"limits" names something twice
{"limits":["a","b","c","d","e","f","g","h","i"]}|field-invalid|"limits" has at most 8 entries
{"limits":["crm {x}"]}|field-invalid|"limits": a limit's name is made of letters, digits, ".", "_", ":", "/", "-" and fields like {tenant}
{"limits":["crm:{site}"]}|field-invalid|"limits": "crm:{site}" names the field {site}, which is not in key_template
{"key_template":"org:{org}","limits":["crm:{site}"]}|field-invalid|"limits": "crm:{site}" names the field {site}, which is not in key_template
{"key_template":"a:{b"}|field-invalid|"key_template": the part "{b" must be a word or one field like {customer}
{"key_template":""}|field-invalid|"key_template" must have at least one part
{"protects":"\\ud800"}|json-invalid|a kind is a JSON object
{"protects":"a\\u0000b"}|json-invalid|a kind is a JSON object
{"\\ud800":1}|json-invalid|a kind is a JSON object
{"key_template":"a::b"}|field-invalid|"key_template": the part "" must be a word or one field like {customer}
{"key_template":"a:x{b}"}|field-invalid|"key_template": the part "x{b}" must be a word or one field like {customer}
{"key_template":"a:{b}:{b}"}|field-invalid|"key_template" names {b} twice
{"key_template":"a:{tenant}"}|field-invalid|"key_template": {tenant} has a meaning of its own; name the field otherwise
{"fair_by":"customer"}|field-invalid|"fair_by" must be "tenant", a field of key_template, or the number of a part ("1" to "16"), not "customer"
{"fair_by":"17"}|field-invalid|"fair_by" must be "tenant", a field of key_template, or the number of a part ("1" to "16"), not "17"
{"key_template":"a:{b}","fair_by":"3"}|field-invalid|"fair_by": key_template has no part 3
{"fair_by":"2","order":"newest"}|field-invalid|"order": "newest" does not go with fair_by, which has an order of its own
{"protects":7}|field-invalid|"protects" must be a string of at most 4096 bytes
{"Overlap":"skip"}|unknown-field|a kind has no field "Overlap"
{"leaseseconds":3}|unknown-field|a kind has no field "leaseseconds"
{"priority":1,"priority":2}|field-invalid|"priority" occurs twice
{"name":"other"}|field-invalid|"name" must be the name in the path
{"version":1}|field-invalid|"version" is not the present one (none)
[]|json-invalid|a kind is a JSON object
"skip"|json-invalid|a kind is a JSON object
{"lease_seconds":|json-invalid|a kind is a JSON object
|json-invalid|a kind is a JSON object
\.

select results_eq(
    format('select problem, detail, doc from pg_temp.put(%L)', b.doc),
    format('values (%L, %L, null::text)', b.problem, b.detail),
    'refused: ' || b.doc)
from bad b order by n;
select is((select count(*)::int from interlock.kinds), 0,
    'nothing was stored');
select is((select problem from pg_temp.put('{}', 'No Good')),
    'field-invalid', 'a bad name');

-- What a lost job needs.
select results_eq(
    $$select problem, detail from pg_temp.put('{"on_lost":"check"}')$$,
    $$values ('field-invalid', '"on_lost": "check" needs a result_check, '
        'which says how to look for a result')$$, 'check needs a check');
select results_eq(
    format('select problem, left(detail, %s) from pg_temp.put(%L)',
        length(b.detail), b.doc),
    format('values (%L, %L)', 'field-invalid', b.detail), b.doc)
from (values
    ('{"on_lost":"wait"}', '"on_lost" must be one of retry, check, hold'),
    ('{"result_check":"x"}', '"result_check": '),
    ('{"result_check":{"type":"none"}}', '"result_check": '),
    ('{"result_check":{"type":"worker","on_exhausted":"guess"}}',
        '"result_check": '),
    ('{"delivery_effects":"mail"}', '"delivery_effects" must be an array'),
    ('{"delivery_effects":[""]}', '"delivery_effects" must be names'),
    ('{"delivery_effects":["a\u0007"]}', '"delivery_effects" must be names'),
    ('{"delivery_effects":["mail","mail"]}',
        '"delivery_effects" names something twice'),
    (format('{"delivery_effects":["%s"]}', repeat('x', 257)),
        '"delivery_effects" must be names')) b (doc, detail);
select is((select count(*)::int from interlock.kinds), 0,
    'nothing was stored of these');
select results_eq(
    $$select doc::json ->> 'on_lost',
          doc::json #>> '{result_check,found,equals,0}',
          doc::json -> 'delivery_effects' ->> 0
      from pg_temp.put('{"on_lost":"check","delivery_effects":["mail to x"],
          "result_check":{"type":"http","url":"https://h/{job_id}",
          "found":{"status":[200],"pointer":"/n","equals":[1.10]},
          "not_found":{"status":[404]}}}', 'lost')$$,
    $$values ('check', '1.10', 'mail to x')$$,
    'kept as they were given, numbers too');
select is((select doc::json ->> 'version' from pg_temp.put('{}', 'lost')), '1',
    'and not changed by a change of nothing');
select is((select doc::json ->> 'on_lost' from pg_temp.put(
    '{"on_lost":"hold","result_check":null}', 'lost')), 'hold', 'hold');
alter table interlock.kind_versions disable trigger user;
delete from interlock.kind_versions;
delete from interlock.kinds;
alter table interlock.kind_versions enable trigger user;

-- Defaults.
select is((select problem from pg_temp.put('{}')), null, 'a kind by default');
select results_eq(
    $$select overlap, on_busy, allow_fresh, when_completed, result_ttl,
          idempotency_ttl, lease_seconds, max_runtime, cancel_grace,
          max_attempts, retry_for, backoff, max_backoff, on_lost,
          max_waiting, max_queued, max_wait, priority, aging, hold
      from interlock.kind_versions$$,
    $$values ('skip', 'skip', false, 'run', null::int, 604800, 30, 21600, 30,
          5, 86400, 5, 600, 'retry', 1000, 100000, 86400, 0, 60,
          1)$$,
    'the defaults');
insert into interlock.kinds (tenant, name, version)
values (interlock.tenant_create('demo'), 'table', 1);
insert into interlock.kind_versions (tenant, name, version)
values (interlock.tenant_create('demo'), 'table', 1);
select results_eq(
    $$select doc::jsonb - 'name' from interlock.kind_get(
        interlock.tenant_create('demo'), 'table')$$,
    $$select doc::jsonb - 'name' from interlock.kind_get(
        interlock.tenant_create('demo'), 'k')$$,
    'the table''s own defaults are the same');

-- Merging and versions.
select is((select doc::jsonb ->> 'version' from pg_temp.put('{}')), '1',
    'nothing changed: no new version');
select is((select doc::jsonb ->> 'version' from pg_temp.put(
    '{"lease_seconds":30}')), '1', 'nor with the present value');
select results_eq(
    $$select doc::jsonb ->> 'version', doc::jsonb ->> 'lease_seconds',
          doc::jsonb ->> 'overlap'
      from pg_temp.put('{"lease_seconds":7,"result_ttl":9}')$$,
    $$values ('2', '7', 'skip')$$, 'a change: a new version');
select results_eq(
    $$select doc::jsonb ->> 'version', doc::jsonb ->> 'lease_seconds',
          doc::jsonb ->> 'result_ttl'
      from pg_temp.put('{"overlap":"allow","result_ttl":null}')$$,
    $$values ('3', '7', null::text)$$, 'what is left out keeps its value');
select is((select doc::jsonb ->> 'version' from pg_temp.put((
    select doc from interlock.kind_get(interlock.tenant_create('demo'),
                                       'k')))), '3',
    'what GET shows can be PUT as it stands');
select is((select detail from pg_temp.put('{"version":2,"aging":1}')),
    '"version" is not the present one (3)', 'but not over a newer version');
select is((select doc::json ->> 'examples' from pg_temp.put(
    '{"examples":[1.10,1e131071]}')), '[1.10,1e131071]',
    'examples are kept as they are');

-- A job keeps its policy.
select submit.ord from t.submit('k', 'k:1', id => 1);
select t.kind('k', '{"lease_seconds":99}');
select is((select lease_seconds from t.claim('k')), 7,
    'a job keeps the version under which it was admitted');

-- Delete.
select is((select problem from interlock.kind_delete(
    interlock.tenant_create('demo'), 'k')), 'kind-in-use',
    'not while jobs are open');
update t.held set who = 'x';
insert into t.held select 'w', tenant, job_id, attempt_id, fence
from interlock.leases;
select t.finish('w', 'complete');
select is((select problem from interlock.kind_delete(
    interlock.tenant_create('demo'), 'k')), null, 'deleted');
select is((select problem from interlock.kind_delete(
    interlock.tenant_create('demo'), 'k')), 'kind-unknown', 'once');
select is_empty($$select * from interlock.kind_get(
    interlock.tenant_create('demo'), 'k')$$, 'gone');
select results_eq($$select doc::json ->> 'name' from interlock.kind_list(
    interlock.tenant_create('demo'), 9, null)$$, $$values ('table')$$,
    'from the list too');
select results_eq(
    $$select doc::jsonb ->> 'version', doc::jsonb ->> 'lease_seconds'
      from pg_temp.put('{}')$$, $$values ('6', '30')$$,
    'made again: defaults, and a version of its own');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
