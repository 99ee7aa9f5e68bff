-- order.sql: who is claimed first: priority with ageing, newest, deadline,
-- fairness; versions in both orders.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

create temp table ran (n int generated always as identity, job uuid,
    work_key text, payload text);
create function pg_temp.run(p_kind text, p_n int) returns text
language plpgsql as $$
declare
    v_out  text := '';
    r      record;
begin
    for i in 1 .. p_n loop
        select c.job_id, c.work_key, convert_from(c.payload, 'UTF8') as p
        into r from t.claim(p_kind, 1) c;
        exit when r.job_id is null;
        insert into ran (job, work_key, payload)
        values (r.job_id, r.work_key, r.p);
        v_out := v_out || ' ' || r.work_key;
    end loop;
    return ltrim(v_out);
end
$$;
-- As if admitted so long ago.
create function pg_temp.older(p_key text, p_by interval) returns void
language sql as $$
    update interlock.jobs set order_key = order_key - p_by,
        created_at = created_at - p_by, tag = tag - p_by
    where work_key = p_key
$$;

-- Priority, and how long it lasts.
select t.kind('prio', '{"overlap":"allow","aging":60,"priority":5}');
select t.submit('prio', 'k:low', priority => -10);
select t.submit('prio', 'k:mid');
select t.submit('prio', 'k:high', priority => 10);
select is((select string_agg(priority::text, ' ' order by created_at)
    from interlock.jobs where kind = 'prio'), '-10 5 10',
    'the kind''s priority unless one is given');
select is(pg_temp.run('prio', 3), 'k:high k:mid k:low', 'higher first');
-- 20 levels of 60 s: admitted 20 minutes before, a low one is first.
select t.submit('prio', 'k:low', priority => -10);
select pg_temp.older('k:low', interval '1201 s');
select t.submit('prio', 'k:high', priority => 10);
select is(pg_temp.run('prio', 1), 'k:low',
    'but only over what came less than the difference × aging before');
select pg_temp.run('prio', 9);
select t.submit('prio', 'k:low', priority => -10);
select pg_temp.older('k:low', interval '1199 s');
select t.submit('prio', 'k:high', priority => 10);
select is(pg_temp.run('prio', 2), 'k:high k:low', 'a second less: not yet');
select results_eq(
    $$select outcome, code, problem, detail
      from t.submit('prio', 'k:x', priority => 101)$$,
    $$values ('problem', 400, 'field-invalid',
        '"priority" must be between -100 and 100')$$, 'out of range');
select is((select code from t.submit('prio', 'k:x', priority => -101)), 400,
    'on both sides');
select is((select code from t.submit('prio', 'k:x', priority => -100)), 202,
    'the bound itself is in');
select pg_temp.run('prio', 9);

-- A permanent flood of high priority: in simulated time, one job a second
-- comes and one goes; the low one goes within its bound.
select t.kind('flood', '{"overlap":"allow","aging":2}');
create function pg_temp.flood() returns int language plpgsql as $$
declare
    v_key  text;
begin
    perform t.submit('flood', 'f:low', priority => -5);
    for i in 1 .. 40 loop
        perform t.submit('flood', 'f:' || i, priority => 5);
        select work_key into v_key from t.claim('flood', 1);
        if v_key = 'f:low' then
            return i;
        end if;
        update interlock.jobs set order_key = order_key - interval '1 s'
        where kind = 'flood' and place = 'ready';
    end loop;
    return null;
end
$$;
select is(pg_temp.flood(), 21,
    'behind a permanent flood: right after 10 levels × 2 s');

-- newest: the last admitted first, within 200 × aging.
select t.kind('new', '{"overlap":"allow","order":"newest","aging":60}');
select t.submit('new', 'n:' || x) from generate_series(1, 4) x;
select is(pg_temp.run('new', 2), 'n:4 n:3', 'newest first');
select t.submit('new', 'n:5');
select is(pg_temp.run('new', 9), 'n:5 n:2 n:1', 'again');
select t.submit('new', 'n:old');
select pg_temp.older('n:old', interval '12001 s');
select t.submit('new', 'n:young');
select is(pg_temp.run('new', 9), 'n:old n:young',
    'but nobody waits for those admitted 200 × aging later');

-- deadline: the soonest first, within the same bound.
select t.kind('dead', '{"overlap":"allow","order":"deadline","aging":60}');
create function pg_temp.dead(p_key text, p_in interval) returns void
language sql as $$
    select interlock.submit(array[t.demo()], array[gen_random_uuid()], '{api}',
        array[null], '{x}', '{reject}', '{dead}', array[p_key],
        array[null::bigint], '{x}', array[null], '{}', array[null],
        array[null::int], array[null::timestamptz],
        array[clock_timestamp() + p_in], array[false], array[null],
        array[null], true)
$$;
select pg_temp.dead('e:none', null), pg_temp.dead('e:late', '10 days'),
    pg_temp.dead('e:hour', '1 hour'), pg_temp.dead('e:min', '1 minute'),
    pg_temp.dead('e:past', '-1 day');
select is(pg_temp.run('dead', 9), 'e:past e:min e:hour e:none e:late',
    'sooner deadlines first');
select pg_temp.dead('e:none', null);
select pg_temp.older('e:none', interval '12001 s');
select pg_temp.dead('e:past', '-1 day');
select is(pg_temp.run('dead', 9), 'e:none e:past',
    'but no deadline beats what came 200 × aging before');

-- fair_by: one customer with 500 waiting, one with 1.
select t.kind('fair', '{"overlap":"allow","key_template":"c:{customer}:{n}",
    "fair_by":"customer"}');
select t.submit('fair', 'c:big:' || x) from generate_series(1, 500) x;
select is(pg_temp.run('fair', 3), 'c:big:1 c:big:2 c:big:3', 'alone: in order');
select t.submit('fair', 'c:small:1');
select alike(pg_temp.run('fair', 4), '%c:small:1%',
    'two customers: the small one starts within 4 claims');
-- 20 small ones, each of two jobs: all first ones within 2 × 21 claims.
select t.submit('fair', format('c:s%s:%s', x, y))
from generate_series(1, 2) y, generate_series(1, 20) x;
select pg_temp.run('fair', 42);
select is((select count(distinct work_key)::int from (
    select * from ran order by n desc limit 42) x
    where work_key like 'c:s%:1' and work_key <> 'c:small:1'), 20,
    '21 customers: each one starts within 42 claims');
-- One that always comes back does not starve the others.
create function pg_temp.comes_back() returns int language plpgsql as $$
declare
    n  int := 0;
begin
    for i in 1 .. 20 loop
        perform t.submit('fair', 'c:again:' || i);
        if (select c.work_key from t.claim('fair', 1) c) like 'c:big%' then
            n := n + 1;
        end if;
    end loop;
    return n;
end
$$;
select cmp_ok(pg_temp.comes_back(), '>=', 9,
    'one that comes back after each claim gets no more than its half');
-- By the number of a part.
select t.kind('part', '{"overlap":"allow","fair_by":"2"}');
select t.submit('part', 'x:a:' || i) from generate_series(1, 9) i;
select t.submit('part', 'x:b:1');
select alike(pg_temp.run('part', 2), '%x:b:1%', 'fair_by by part number');

-- Several kinds in one claim: by how long they waited, not by virtual time.
select t.submit('prio', 'k:other', priority => 0);
select is((select work_key from t.claim('fair,prio', 1)) like 'c:big:%', true,
    'a kind of virtual time that is far ahead is not last for that');

-- Versions 7 and 8 in both orders, running, queued or done: 8 runs last and
-- stays published.
create temp table ver (overlap text, state text, first int, second int);
insert into ver
select o, s, v.a, v.b
from unnest(array['allow', 'buffer_one', 'buffer_first', 'buffer_all',
                  'replace']) o,
    unnest(array['queued', 'running', 'done']) s,
    (values (7, 8), (8, 7)) v (a, b);
create function pg_temp.versions(v ver) returns text language plpgsql as $$
declare
    v_kind  text := replace(format('v-%s-%s-%s', v.overlap, v.state, v.first),
                            '_', '-');
    v_last  bigint;
    v_ans   text;
begin
    perform t.kind(v_kind, json_build_object('overlap', v.overlap)::text);
    perform t.submit(v_kind, v_kind, 'a' || v.first, version => v.first);
    if v.state <> 'queued' then
        perform t.take('v', v_kind);
    end if;
    if v.state = 'done' then
        perform t.finish('v', 'complete');
    end if;
    select decision || coalesce(' ' || reason, '') into v_ans
    from t.submit(v_kind, v_kind, 'b' || v.second, version => v.second);
    for i in 1 .. 4 loop
        if v.state = 'running' then
            -- the second one, if it may run beside, completes before it
            if t.take('u', v_kind) <> 'nothing' then
                perform t.finish('u', 'complete');
            end if;
            if not exists (select from t.finish('v', 'complete') f
                           where f.outcome = 'ok') then
                perform t.finish('v', 'release');
            end if;
        end if;
        exit when t.take('v', v_kind) = 'nothing';
        perform t.finish('v', 'complete');
    end loop;
    return v_ans || ', published ' || (select published_version
        from interlock.works where work_key = v_kind)
        || (select ', open ' || count(*) from interlock.jobs
            where work_key = v_kind and finished_at is null);
end
$$;
select is(pg_temp.versions(v), case when v.first = 8
        then 'skipped older_version' when v.state = 'done' then 'accepted'
        when v.overlap = 'allow' then 'accepted'
        when v.overlap = 'replace' then 'replaced' else 'buffered' end
        || ', published 8, open 0',
    concat_ws(' ', v.overlap, v.state, v.first, 'then', v.second))
from ver v;
select is((select decision from t.submit('v-replace-done-7', 'v:eq', 'x',
    version => 3)), 'accepted', 'a version');
select results_eq($$select decision, reason
    from t.submit('v-replace-done-7', 'v:eq', 'y', version => 3)$$,
    $$values ('skipped', 'same_work')$$, 'an equal one is the same work');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
