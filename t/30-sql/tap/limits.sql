-- limits.sql: limit groups, start rates, bounds of queues.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

create function pg_temp.put(p_name text, p_doc text) returns text
language sql as $$
    select coalesce(r.problem || ': ' || r.detail, r.doc || ' wakes '
        || array_to_string(r.wake_kinds, '+'))
    from interlock.limit_put(t.demo(), p_name, p_doc) r
$$;
-- How many jobs of a kind stand where.
create function pg_temp.places(p_kind text) returns text language sql as $$
    select string_agg(n || ' ' || at, ', ' order by at)
    from (select coalesce(j.place, j.status) as at, count(*) as n
          from interlock.jobs j where j.kind = p_kind group by 1) x
$$;
create function pg_temp.claim(p_kind text, p_n int default 1)
returns int language sql as $$
    select count(*)::int from t.claim(p_kind, p_n)
$$;
create function pg_temp.end(p_kind text, p_n int default 1,
    p_call text default 'complete') returns text[] language sql as $$
    select array_agg(distinct w)
    from (select array_agg(x.tenant) as t, array_agg(x.job_id) as j,
              array_agg(x.attempt_id) as a, array_agg(x.fence) as f,
              count(*)::int as n
          from (select * from interlock.leases where kind = p_kind
                order by granted_at limit p_n) x) l,
        interlock.finish(l.t, l.j, l.a, l.f, array_fill(p_call, array[l.n]),
            array_fill('\x01'::bytea, array[l.n]),
            array_fill(null::text, array[l.n]),
            array_fill(null::text, array[l.n]),
            array_fill(null::bigint, array[l.n]),
            array_fill(null::bigint, array[l.n]),
            array_fill('e'::text, array[l.n]),
            array_fill(true, array[l.n]),
            array_fill(null::text, array[l.n]),
            array_fill(null::text, array[l.n]),
            array_fill(60, array[l.n])) r
        left join lateral unnest(r.wake_kinds) w on true
$$;

select t.kind('free', '{"overlap":"allow"}');

-- The limits themselves.
create temp table bad (n int generated always as identity, doc text,
    said text);
copy bad (doc, said) from stdin with (delimiter '|');
{"capacity":0}|field-invalid: "capacity" must be between 1 and 1000000
{"capacity":-1}|field-invalid: "capacity" must be between 1 and 1000000
{"capacity":1.5}|field-invalid: "capacity" must be a whole number
{"capacity":"3"}|field-invalid: "capacity" must be a whole number
{"capacity":null}|field-invalid: "capacity" must be a whole number
{"capacity":99999999999999999999}|field-invalid: "capacity" must be a whole number
{"capacity":1,"start_rate":0}|field-invalid: "start_rate" must be between 0.0001 and 1000000 a second
{"capacity":1,"start_rate":-2}|field-invalid: "start_rate" must be between 0.0001 and 1000000 a second
{"capacity":1,"start_rate":1e300}|field-invalid: "start_rate" must be a number or null
{"capacity":1,"start_rate":"5"}|field-invalid: "start_rate" must be a number or null
{"start_rate":5}|field-invalid: "capacity" is missing
{}|field-invalid: "capacity" is missing
{"capacity":1,"capacity":2}|field-invalid: "capacity" occurs twice
{"capacity":1,"rate":2}|unknown-field: a limit has no field "rate"
{"capacity":1,"name":"other"}|field-invalid: "name" must be the name in the path
[]|json-invalid: a limit is a JSON object
{"capacity|json-invalid: a limit is a JSON object
\.
select is(pg_temp.put('crm', b.doc), case when b.doc like '%1e300%'
    then 'field-invalid: "start_rate" must be between 0.0001 and 1000000 a '
        'second' else b.said end, 'refused: ' || b.doc)
from bad b order by n;
select is((select count(*)::int from interlock.limits), 0, 'nothing stored');
select alike(pg_temp.put('a b', '{"capacity":1}'), 'field-invalid: a limit%',
    'a bad name');
select is(pg_temp.put('crm', '{"capacity":2}'), '{"name" : "crm", '
    '"capacity" : 2, "start_rate" : null, "active" : 0} wakes ', 'put');
select is(pg_temp.put('crm', '{"start_rate":2.5}'), '{"name" : "crm", '
    '"capacity" : 2, "start_rate" : 2.5, "active" : 0} wakes ',
    'what is left out stays');
select is(pg_temp.put('crm', '{"start_rate":null}'), '{"name" : "crm", '
    '"capacity" : 2, "start_rate" : null, "active" : 0} wakes ', 'null');
select is((select string_agg(name, ' ') from interlock.limit_list(t.demo())), 'crm',
    'listed');
select is((select problem from interlock.limit_delete(t.demo(), 'none')),
    'not-found', 'no such limit');

-- A limit that is not there limits nothing.
select t.kind('ghost', '{"overlap":"allow","limits":["ghost"]}');
select t.submit('ghost', 'g:' || x) from generate_series(1, 9) x;
select is(pg_temp.claim('ghost', 9), 9, 'a limit that is not there: no bound');
-- But what runs counts once it is.
select pg_temp.put('ghost', '{"capacity":9}');
select t.submit('ghost', 'g:10');
select is(pg_temp.places('ghost'), '1 limited, 9 running',
    'put while 9 run: full');
select is((select (doc::json ->> 'active')::int from interlock.limit_get(t.demo(),
    'ghost')), 9, 'active');

-- Capacity.
select t.kind('crm', '{"overlap":"allow","limits":["crm"],"backoff":60}');
select t.submit('crm', 'c:' || x) from generate_series(1, 6) x;
select is(pg_temp.places('crm'), '4 limited, 2 ready',
    'no more are ready than there is room');
select is(pg_temp.claim('crm', 9), 2, 'no more than the capacity');
select is(pg_temp.claim('crm', 9), 0, 'full');
select is((select work_key from interlock.leases where kind = 'crm'
    order by granted_at, work_key limit 1), 'c:1', 'in order');
select is(pg_temp.end('crm'), array['crm'], 'one ends and wakes the next');
select is(pg_temp.places('crm'), '3 limited, 1 ready, 1 running, 1 succeeded',
    'which is ready');
select is(pg_temp.claim('crm', 9), 1, 'and starts');
-- Failing with backoff gives its place to the next; later it stands in line.
select is(pg_temp.end('crm', 1, 'fail'), array['crm'], 'a failure does');
select is(pg_temp.claim('crm', 9), 1, 'the next starts');
select t.due('c:2');
select is(pg_temp.claim('crm', 9), 0, 'the retry is due, but full');
select is(pg_temp.places('crm'), '3 limited, 2 running, 1 succeeded',
    'so it is limited, too');
-- Release: its slot goes to the first in order.
select is(pg_temp.end('crm', 1, 'release'), array['crm'], 'a release');
select is((select j.work_key from interlock.jobs j where j.kind = 'crm'
    and j.place = 'ready'), 'c:2', 'the first in order is let go');
select is(pg_temp.claim('crm', 9), 1, 'and starts');
-- Lost.
update interlock.leases set expires_at = clock_timestamp()
where kind = 'crm';
select is((select count(*)::int from interlock.recover(9) r
    where 'crm' = any (r.wake_kinds)), 1, 'recovery wakes');
select is(pg_temp.claim('crm', 9), 2, 'the slots of the lost are free');
-- unclaim.
select is((select wake_kinds from interlock.unclaim(array[t.demo()], (select
    array_agg(attempt_id) from (select * from interlock.leases
        where kind = 'crm' limit 1) x))), array['crm'], 'unclaim wakes');
select is(pg_temp.claim('crm', 9), 1, 'and frees the slot');
-- Cancel and expiry of what is ready make room, too.
select pg_temp.end('crm', 2);
select is((select c.wake_kinds from interlock.jobs j,
        interlock.job_cancel(t.demo(), j.id, 'a', 'b', 1, 'c') c
    where j.kind = 'crm' and j.place = 'ready' limit 1), array['crm'],
    'canceling one that was let go lets the next one go');
select pg_temp.claim('crm', 9);
select pg_temp.end('crm', 9);
select pg_temp.claim('crm', 9);
select pg_temp.end('crm', 9);
select is((select count(*)::int from interlock.jobs where kind = 'crm'
    and finished_at is null), 0, 'all have ended');
select is((select count(*)::int from interlock.lease_groups
    where group_name = 'crm'), 0, 'no slot is left over');

-- Raising and lowering while running.
select t.submit('crm', 'd:' || x) from generate_series(1, 9) x;
select pg_temp.claim('crm', 9);
select alike(pg_temp.put('crm', '{"capacity":5}'), '%"active" : 2} wakes crm',
    'raised: wakes');
select is(pg_temp.claim('crm', 9), 3, 'up to the new capacity');
select pg_temp.put('crm', '{"capacity":1}');
select is(pg_temp.places('crm'), '1 canceled, 4 limited, 5 running, '
    || '5 succeeded', 'lowered: nothing is ended');
select pg_temp.end('crm', 4);
select is(pg_temp.claim('crm', 9), 0, 'nothing starts while it is full');
select pg_temp.end('crm', 1);
select is(pg_temp.claim('crm', 9), 1, 'one');
select is((select wake_kinds from interlock.limit_delete(t.demo(), 'crm')),
    array['crm'], 'deleted: all may go');
select is(pg_temp.claim('crm', 9), 3, 'and do');

-- Each setting of a field is a group of its own; kinds share it.
select pg_temp.put('site:{site}', '{"capacity":1}');
select pg_temp.put('all:{tenant}', '{"capacity":3}');
select t.kind('s1', '{"overlap":"allow","key_template":"s:{site}:{n}",
    "limits":["site:{site}","all:{tenant}"]}');
select t.kind('s2', '{"overlap":"allow","key_template":"{site}:x:{n}",
    "limits":["all:{tenant}","site:{site}"]}');
select t.submit('s1', format('s:%s:%s', x, y))
from generate_series(1, 5) x, generate_series(1, 2) y;
select t.submit('s2', format('%s:x:%s', x, y))
from generate_series(1, 5) x, generate_series(1, 2) y;
select results_eq($$select groups from interlock.jobs
    where work_key in ('s:3:1', '3:x:1')$$,
    $$values (array['all:{tenant=demo}', 'site:{site=3}']),
        (array['all:{tenant=demo}', 'site:{site=3}'])$$,
    'both kinds name the same groups');
select is(pg_temp.claim('s1,s2', 99), 3, 'three in all');
select is((select max(n)::int from (select count(*) as n
    from interlock.lease_groups where group_name like 'site:%'
    group by group_name) x), 1, 'one of each site');
select interlock.limits_sweep(100);
select pg_temp.end('s1', 1);
select is(pg_temp.claim('s1,s2', 99), 1, 'one more');
create function pg_temp.drain() returns int language plpgsql as $$
declare
    v_max   int := 0;
    v_turn  int := 0;
begin
    loop
        v_turn := v_turn + 1;
        select greatest(v_max, max(n)) into v_max
        from (select count(*) as n from interlock.lease_groups
              group by group_name) x;
        perform pg_temp.end('s1', 1);
        perform pg_temp.end('s2', 1);
        perform interlock.limits_sweep(100);
        exit when pg_temp.claim('s1,s2', 2) = 0 and not exists (
            select from interlock.leases where kind in ('s1', 's2'));
        exit when v_turn > 100;
    end loop;
    return v_max;
end
$$;
select cmp_ok(pg_temp.drain(), '<=', 9, 'to the end');
select is((select count(*)::int from interlock.jobs
    where kind in ('s1', 's2') and finished_at is null), 0, 'all end');
-- A field's value cannot be mistaken for another group.
select t.kind('odd', '{"overlap":"allow","key_template":"{a}:{b}",
    "limits":["o:{a}{b}"]}');
select t.submit('odd', 'x}{b=y:z'), t.submit('odd', 'x:z');
select is((select count(distinct groups)::int from interlock.jobs
    where kind = 'odd'), 2, 'strange values make groups of their own');

-- A full group is nobody else's business: 300 blocked jobs of better
-- priority, which this test makes ready by force.
select pg_temp.put('full', '{"capacity":1}');
select t.kind('full', '{"overlap":"allow","limits":["full"],"priority":100}');
select t.submit('full', 'f:' || x) from generate_series(1, 300) x;
select is(pg_temp.claim('full', 1), 1, 'full');
update interlock.jobs set place = 'ready' where kind = 'full'
    and place = 'limited';
select t.submit('free', 'x:1');
select is((select string_agg(kind, ' ') from t.claim('full,free', 1)), 'free',
    'the other kind''s job is found behind them');
select is(pg_temp.claim('full,free', 1), 0, 'nothing else');
select is((select count(*)::int from interlock.jobs
    where kind = 'full' and place = 'ready'), 0, 'they are out of the way');
select pg_temp.end('full', 1);
select is(pg_temp.claim('full', 9), 1, 'and come back in order');

-- Start rate: 4 a second, each in its own quarter.
select pg_temp.put('rate', '{"capacity":100,"start_rate":4}');
select t.kind('rate', '{"overlap":"allow","limits":["rate"]}');
select t.submit('rate', 'r:' || x) from generate_series(1, 30) x;
select is(pg_temp.claim('rate', 30), 1, 'the first at once');
select is(pg_temp.claim('rate', 30), 0, 'not the second');
select is((select count(*)::int from interlock.jobs where kind = 'rate'
    and place = 'delayed' and run_at <= interval '2.1 s' + (
        select min(granted_at) from interlock.leases where kind = 'rate')),
    1, 'the next one has its time, the others keep their order');
select cmp_ok((select min(run_at) from interlock.jobs
        where kind = 'rate' and place = 'delayed') - (
        select max(granted_at) from interlock.leases where kind = 'rate'),
    '>=', interval '249 ms', 'a quarter of a second on');
select isnt((select next_at from interlock.runnable(array[t.demo()],
    array['rate'])), null, 'and runnable() tells when');
update interlock.limit_groups set next_start = clock_timestamp()
    + interval '1 hour' where name = 'rate';
update interlock.jobs set run_at = clock_timestamp()
where kind = 'rate' and place = 'delayed';
select results_eq($$select ready, next_at > clock_timestamp()
        + interval '59 minutes'
    from interlock.runnable(array[t.demo()], array['rate'])$$,
    $$values (0::bigint, true)$$,
    'due, but held back by the rate: not ready, its start is the time');

-- Changed while jobs have their times: those are taken back.
select pg_temp.put('rate', '{"start_rate":0.001}');
select is(pg_temp.claim('rate', 30), 0, 'slow: nothing now');
select pg_temp.put('rate', '{"start_rate":4}');
select cmp_ok((select next_at - clock_timestamp() from interlock.runnable(
    array[t.demo()], array['rate'])), '<', interval '1 s',
    'faster: the next one soon');
-- how long n more starts take; a machine that stands still now and then makes
-- it longer, never shorter
create function pg_temp.starts(p_n int) returns interval
language plpgsql as $$
declare
    n        int := 0;
    v_start  timestamptz := clock_timestamp();
begin
    while n < p_n and clock_timestamp() < v_start + interval '30 s' loop
        n := n + pg_temp.claim('rate', 30);
        perform pg_sleep(0.005);
    end loop;
    return case when n = p_n then clock_timestamp() - v_start end;
end
$$;
select cmp_ok(pg_temp.starts(6), '>=', interval '1.2 s',
    'six more take a second and a half, and come one by one');
select is_empty($$select x.granted_at from (
        select granted_at, lead(granted_at, 4) over (order by granted_at)
            as fifth
        from interlock.leases where kind = 'rate') x
    where x.fifth < x.granted_at + interval '1 s'$$,
    'no second sees more than four starts');
select is(interlock.rate_step(50), interval '20 ms', '50 a second');
select is(interlock.rate_slack(50), interval '0', 'strictly');
select is((1 / extract(epoch from interlock.rate_step(300)))::int
    + (extract(epoch from interlock.rate_slack(300))
       / extract(epoch from interlock.rate_step(300)))::int, 300,
    '300 a second: what may be caught up is taken off the rate');

-- Bounds.
select t.kind('few', '{"overlap":"allow","max_queued":3}');
select is((select string_agg(code::text, ' ' order by x)
    from generate_series(1, 5) x, t.submit('few', 'q:' || x)),
    '202 202 202 429 429', 'max_queued');
select results_eq($$select outcome, code, decision, reason, problem, detail,
        retry_after, job_id, done_for
    from t.submit('few', 'q:6', 'p', 'idem-full', id => 60)$$,
    $$values ('problem', 429, 'rejected', 'kind_full', 'queue-full',
        'too many jobs of this kind are queued', 30, null::uuid, null::int)$$,
    'a 429: what and why');
select results_eq($$select decision, code, reason from interlock.requests
    where id = t.rid(60)$$, $$values ('rejected', 429, 'kind_full')$$,
    'is a request');
select results_eq($$select outcome, code, problem, reason, replayed
    from t.submit('few', 'q:6', 'p', 'idem-full', id => 60)$$,
    $$values ('problem', 429, 'queue-full', 'kind_full', false)$$,
    'the same request again: the same answer');
select is((select count(*)::int from interlock.works
    where work_key in ('q:4', 'q:5', 'q:6')), 0,
    'a refused request leaves no work behind');
select pg_temp.claim('few', 1);
select results_eq($$select code, decision, replayed
    from t.submit('few', 'q:6', 'p', 'idem-full')$$,
    $$values (202, 'accepted', false)$$,
    'and never holds its idempotency key');
select pg_temp.claim('few', 9);
select pg_temp.end('few', 9);
-- A batch gets as much as there is room for; its duplicates wait for it.
select results_eq($$select decision from t.submitn('few',
        array['b:1', 'b:2', 'b:3', 'b:4', 'b:4'],
        array['i1', 'i2', 'i3', 'i4', null], 9000)$$,
    $$values ('accepted'), ('accepted'), ('accepted'), ('rejected'),
        ('rejected')$$, 'a batch: three of five');
select results_eq($$select decision, replayed from t.submitn('few',
        array['b:9', 'b:9'], array['same', 'same'], 9100)$$,
    $$values ('rejected', false), (null, false)$$,
    'a repeat of what is refused in the same batch is busy, no duplicate');
-- What ends another queued job takes its place, however full.
select t.kind('one', '{"overlap":"buffer_one","max_queued":2}');
select t.submit('one', 'o:1', 'A');
select t.take('o', 'one');
select t.submit('one', 'o:1', 'B'), t.submit('one', 'o:2', 'X');
select is((select code from t.submit('one', 'o:3')), 429, 'full');
select is((select decision from t.submit('one', 'o:1', 'C')), 'buffered',
    'the latest still wins');
select is((select decision from t.submit('one', 'o:2', 'Y')), 'rejected',
    'a second one of a key does not');
-- Skips, completions and duplicates are no matter of bounds.
select t.kind('sk', '{"overlap":"skip","max_queued":1}');
select t.submit('sk', 's:1');
select is((select decision from t.submit('sk', 's:1')), 'skipped', 'skipped');
-- The tenant's bound.
select interlock.tenant_bound(t.demo(), (select count(*) + 1 from interlock.jobs
    where place is not null));
select results_eq($$select code, reason from generate_series(1, 2) x,
        t.submit('free', 'tb:' || x)$$,
    $$values (202, null), (429, 'tenant_full')$$, 'the tenant''s bound');
select interlock.tenant_bound(t.demo(), null);
select is((select code from t.submit('free', 'tb:3')), 202, 'taken off');
select throws_ok('select interlock.tenant_bound(t.demo(), 0)', '23514', null,
    'a bound of 0 is none');
-- Retry-After follows the rate of the last minute.
update interlock.kind_pace set rate = 0.05, rated_at = clock_timestamp()
where kind = 'few';
select ok((select retry_after between 20 and 21
    from t.submit('few', 'z:1')),
    'one end in 20 s: 20');
update interlock.kind_pace set rate = 50, rated_at = clock_timestamp()
where kind = 'few';
select is((select retry_after from t.submit('few', 'z:1')), 1,
    '50 a second: 1');
update interlock.kind_pace set rate = 0.00001, rated_at = clock_timestamp()
where kind = 'few';
select is((select retry_after from t.submit('few', 'z:1')), 3600,
    'next to none: bounded');
-- Of a key: by its own last ends.
select t.kind('line', '{"overlap":"buffer_all","max_waiting":1}');
select t.submit('line', 'k:1', 'A');
select t.take('k', 'line');
select t.submit('line', 'k:1', 'B');
update interlock.leases set granted_at = granted_at - interval '40 s'
where kind = 'line';
select ok((select retry_after between 40 and 42
    from t.submit('line', 'k:1', 'C')), 'as long as the first one runs');

-- key_template.
select t.kind('tpl', '{"overlap":"allow",
    "key_template":"org:{org}:daily.sales:{date}"}');
select results_eq($$select k, s.code, s.problem from unnest(array[
        'org:acme:daily.sales:2026-07-24', 'org:acme:dailyxsales:2026-07-24',
        'org:acme:daily.sales', 'org:acme:daily.sales:1:2',
        'xorg:acme:daily.sales:1', 'org:a%3Ab:daily.sales:1']) k,
        t.submit('tpl', k) s$$,
    $$values ('org:acme:daily.sales:2026-07-24', 202, null),
        ('org:acme:dailyxsales:2026-07-24', 400, 'work-key-mismatch'),
        ('org:acme:daily.sales', 400, 'work-key-mismatch'),
        ('org:acme:daily.sales:1:2', 400, 'work-key-mismatch'),
        ('xorg:acme:daily.sales:1', 400, 'work-key-mismatch'),
        ('org:a%3Ab:daily.sales:1', 202, null)$$, 'key_template');
select is((select detail from t.submit('tpl', 'a:b')),
    'a work key of kind "tpl" is of the form org:{org}:daily.sales:{date}',
    'says what it should be');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
