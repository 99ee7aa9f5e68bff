-- explain.sql: a sample's answer, and that it is what submit then gives, in
-- random situations; and that it leaves no trace.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

create function pg_temp.ex(p_kind text, p_doc text) returns text
language sql as $$
    select coalesce(e.problem || ': ' || e.detail, concat_ws(' ',
        coalesce(e.doc::json ->> 'decision', '-'), e.doc::json ->> 'code',
        e.doc::json ->> 'problem', e.doc::json ->> 'work_key'))
    from interlock.explain(t.demo(), p_kind, p_doc) e
$$;

select t.kind('k', '{"overlap":"buffer_first","key_template":"a:{b}",
    "max_payload":5,"protects":"the report of one b"}');
select is(pg_temp.ex('none', '{}'), 'kind-unknown: no kind "none"', 'kind');
select is(pg_temp.ex('k', b.doc), b.said, b.doc)
from (values
    ('{"work_key":"a:1"}', 'accepted 202 a:1'),
    ('{"work_key":["a","x y:%"]}', 'accepted 202 a:x%20y%3A%25'),
    ('{"work_key":"b:1"}', '- 400 work-key-mismatch b:1'),
    ('{"work_key":"a:1","fresh":true}', '- 400 fresh-not-allowed a:1'),
    ('{"work_key":"a:1","payload":"12345"}', '- 413 body-too-large a:1'),
    ('{"work_key":"a:1","priority":101}', '- 400 field-invalid a:1'),
    ('{"work_key":"a:1","priority":1.5}',
        'field-invalid: "priority" must be a whole number'),
    ('{"work_key":"a:1","run_after":"tomorrow"}',
        'field-invalid: "run_after" must be a time (RFC 3339)'),
    ('{"work_key":"a:1","run_after":"2026-02-31T00:00:00Z"}',
        'field-invalid: "run_after" must be a time (RFC 3339)'),
    ('{"work_key":"a:1","kind":"other"}',
        'field-invalid: "kind" must be the name in the path'),
    ('{"work_key":""}',
        'work-key-incomplete: a part of the work key is empty'),
    ('{"work_key":["a",""]}',
        'work-key-incomplete: a part of the work key is empty'),
    ('{"work_key":"a b"}', 'work-key-invalid: a work key has no space or '
        'control character, and after "%" two hex digits'),
    ('{"work_key":7}',
        'work-key-invalid: "work_key" must be a string or an array of parts'),
    ('{"payload":1}', 'field-invalid: "work_key" is missing'),
    ('{"work_key":"a:1","colour":1}',
        'unknown-field: a submission has no field "colour"'),
    ('[1]', 'json-invalid: a sample is the JSON object of a submission'),
    ('{"work', 'json-invalid: a sample is the JSON object of a submission')
) b (doc, said);
select is((select doc::json ->> 'protects' from interlock.explain(t.demo(),
    'k', '{"work_key":"a:1"}')), 'the report of one b', 'what it protects');

select t.submit('k', 'a:1', '1', 'idem-1');
select is(pg_temp.ex('k', '{"work_key":"a:1","idempotency_key":"idem-1"}'),
    'duplicate 202 a:1', 'a known idempotency key');

-- No trace: nothing of any table or sequence changes.
create function pg_temp.traces() returns text language plpgsql as $$
declare
    v_all  text := '';
    v_one  text;
    r      record;
begin
    for r in select c.relname, c.relkind from pg_class c
        where c.relnamespace = 'interlock'::regnamespace
            and c.relkind in ('r', 'S') order by 1
    loop
        execute case r.relkind when 'S'
            then format('select last_value::text from interlock.%I',
                        r.relname)
            else format('select md5(coalesce(string_agg(x::text, '','' '
                        'order by x::text), '''')) from interlock.%I x',
                        r.relname) end into v_one;
        v_all := v_all || r.relname || ' ' || v_one || E'\n';
    end loop;
    return v_all;
end
$$;
create temp table before as select pg_temp.traces() as x;
select pg_temp.ex('k', '{"work_key":"a:1"}'),
    pg_temp.ex('k', '{"work_key":"a:new"}');
select is(pg_temp.traces(), (select x from before), 'it leaves no trace');
select is((select provolatile from pg_proc where proname = 'explain'
    and pronamespace = 'interlock'::regnamespace), 's',
    'the server lets it write nothing');

-- Random situations.
do $$
declare
    o  text;
begin
    foreach o in array array['allow', 'skip', 'buffer_one', 'buffer_first',
                             'buffer_all', 'replace'] loop
        perform t.kind('x-' || replace(o, '_', '-'), json_build_object(
            'overlap', o, 'max_waiting', 2, 'max_queued', 8, 'backoff', 0,
            'allow_fresh', true)::text);
        perform t.kind('y-' || replace(o, '_', '-'), json_build_object(
            'overlap', o, 'max_waiting', 2, 'overflow', 'park',
            'when_completed', 'return', 'allow_fresh', true,
            'on_busy', case o when 'skip' then 'error' else 'skip' end,
            'limits', array['crm'])::text);
        perform t.kind('z-' || replace(o, '_', '-'), json_build_object(
            'overlap', o, 'max_waiting', 2, 'backoff', 0, 'on_lost',
            case when random() < 0.5 then 'hold' else 'retry' end,
            'effect_scope', 'work')::text);
    end loop;
    perform t.providers();
    perform interlock.limit_put(t.demo(), 'crm', '{"capacity":3}');
end
$$;

create function pg_temp.walk(p_steps int) returns text language plpgsql as $$
declare
    v_kinds  text[] := (select array_agg(name order by name)
                        from interlock.kinds where name ~ '^[xyz]-');
    v_kind   text;
    v_key    text;
    v_pay    text;
    v_ver    bigint;
    v_fresh  boolean;
    v_bad    text := '';
    v_n      int := 0;
    v_seen   text[] := '{}';
    v_job    uuid;
    v_effect uuid;
    d        float8;
    e        json;
    a        record;
begin
    perform setseed(0.42);
    for i in 1 .. p_steps loop
        v_kind := v_kinds[1 + floor(random() * cardinality(v_kinds))::int];
        v_key := v_kind || ':' || floor(random() * 2);
        d := random();
        if d < 0.5 then
            v_pay := floor(random() * 3)::text;
            v_ver := case when random() < 0.2 then floor(random() * 9) end;
            v_fresh := random() < 0.2;
            select x.doc::json into strict e from interlock.explain(t.demo(),
                v_kind, json_build_object('work_key', v_key, 'payload',
                    v_pay::int, 'version', v_ver, 'fresh', v_fresh)::text) x;
            select * into strict a from t.submit(v_kind, v_key, v_pay,
                version => v_ver, fresh => v_fresh);
            v_n := v_n + 1;
            v_seen := v_seen || concat_ws(' ', a.decision, a.reason);
            if (e ->> 'decision', e ->> 'code', e ->> 'reason',
                e ->> 'problem', e ->> 'active_job_id',
                e ->> 'superseded_job_id')
                is distinct from (a.decision, a.code::text, a.reason,
                    a.problem, a.active_job_id::text,
                    a.superseded_job_id::text)
                or (a.code = 202 and e ->> 'place' is distinct from (
                    select j.place from interlock.jobs j
                    where j.id = a.job_id)
                    and not (e ->> 'place' = 'limited'))
            then
                v_bad := v_bad || v_kind || ' ' || e || ' but ' || a || E'\n';
            end if;
        elsif d < 0.7 then
            perform t.take('w' || floor(random() * 6), v_kind);
        elsif d < 0.9 then
            perform t.finish('w' || floor(random() * 6),
                (array['complete', 'complete', 'fail', 'release'])
                [1 + floor(random() * 4)::int],
                p_retryable => random() < 0.5);
        elsif d < 0.93 then
            perform interlock.job_cancel(t.demo(), (
                select id from interlock.jobs where kind = v_kind
                    and finished_at is null
                order by random() limit 1), 'a', 'b', 1, 'c');
        elsif d < 0.95 then
            -- what is held, checked, failed or parked; or an effect
            select id into v_job from interlock.jobs
            where status in ('held', 'checking', 'failed', 'parked')
            order by random() limit 1;
            perform interlock.job_decide(t.demo(), v_job,
                (array['retry', 'succeed', 'fail', 'release'])
                [1 + floor(random() * 4)::int], null, 'a', 'b', 1, 'c');
            select id into v_effect from interlock.effects
            where state in ('unknown', 'needs_human')
            order by random() limit 1;
            perform interlock.effect_resolve(t.demo(), v_effect, 'happened',
                'a', 'b', 1, 'c');
        elsif d < 0.97 then
            select 'w' || n into v_pay from generate_series(0, 5) n, t.held h,
                interlock.leases l
            where h.who = 'w' || n and l.attempt_id = h.attempt
                and l.kind ~ '^z-'
            order by random() limit 1;
            perform t.begin(v_pay, 'e', 'mute') where v_pay is not null;
        else
            update interlock.leases set expires_at = least(expires_at,
                clock_timestamp())
            where attempt_id = (select attempt_id from interlock.leases
                order by random() limit 1);
            perform interlock.recover(9);
            perform interlock.limits_sweep(100);
        end if;
    end loop;
    return case when v_bad = '' then 'agreed' else v_bad end
        || ' ' || case when v_n > p_steps / 3 then 'often' end || ' of '
        || (select case when count(distinct x) >= 12 then 'all'
            else string_agg(distinct x, ', ') end || ' kinds'
            from unnest(v_seen) x);
end
$$;
select is(pg_temp.walk(2500), 'agreed often of all kinds',
    'explain says what submit then gives');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
