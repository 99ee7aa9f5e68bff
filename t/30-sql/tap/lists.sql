-- lists.sql: requests, works, leases, actions, jobs and kinds page by page,
-- and search.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

-- A page looks at twenty rows only, or there would have to be very many.
create or replace function interlock.list_span() returns int
language sql immutable as 'select 20';

select t.kind('web', '{"overlap":"allow"}');
select t.kind('one', '{"overlap":"skip"}');
select t.kind('all', '{"overlap":"buffer_all","max_waiting":1,"overflow":"park"}');
select t.kind('odd', '{"overlap":"allow"}');

-- All pages of a call: the value of a field, page by page; whatever else comes
-- in between each two pages.
create function pg_temp.pages(p_call text, p_field text,
    p_between text default null, p_max int default 99)
returns text language plpgsql as $$
declare
    v_out   text := '';
    v_next  text;
    v_page  text;
    n       int := 0;
begin
    loop
        execute format('select string_agg(x.doc::json ->> %L, '' ''), max(x.next)'
            ' from interlock.%s x', p_field, replace(p_call, '$1',
            coalesce(quote_literal(v_next), 'null')))
        into v_page, v_next;
        v_out := v_out || case when n > 0 then ' | ' else '' end
            || coalesce(v_page, '');
        n := n + 1;
        exit when v_next is null or n = p_max;
        if p_between is not null then
            execute p_between;
        end if;
    end loop;
    return v_out;
end
$$;

create function pg_temp.short(p_ids text) returns text language sql as $$
    select regexp_replace(p_ids,
        '00000000-0000-7000-8000-0{0,11}([0-9]+)', '\1', 'g')
$$;

create function pg_temp.requests(p_filters text, p_limit int default 3)
returns text language sql as $$
    select pg_temp.short(pg_temp.pages(format('requests_list(t.demo(), %s, '
        '%s, $1)', p_filters, p_limit), 'request_id'))
$$;


-- Requests.
select t.submit('web', 'w:' || x % 2, '{}', 'i' || x, id => x)
from generate_series(1, 6) x;
select t.submit('one', 's:1', id => 7);
select t.submit('one', 's:1', id => 8);
select t.submit('one', 's:1', '{}', 'i1', 'other', id => 9, source => 'shop');
select t.submit('web', 'w:0', '{}', 'i2', id => 10);
select t.submit('web', 'w:0', 'other', 'i2', id => 11);
select t.edge(1, 'duplicate', 'i4', 'web', 'w:0', t.rid(4));

select is(pg_temp.requests('null, null, null, null, null, null, null'),
    '8001001 11 10 | 9 8 7 | 6 5 4 | 3 2 1', 'newest first, the last page says so');
select is(pg_temp.short(pg_temp.pages('requests_list(t.demo(), null, null,
        null, null, null, null, null, 4, $1)', 'request_id',
        $$select t.submit('web', 'w:9', source => 'late', id => 9000000 + nextval('t.ids'))$$)),
    '8001001 11 10 9 | 8 7 6 5 | 4 3 2 1', 'what is new moves no page');
select is(pg_temp.requests($$null, 'skipped', null, null, null, null, null$$),
    '9 8', 'by decision');
select is(pg_temp.requests($$'late', null, null, null, null, null, null$$,
    200) ~ '^\d+ \d+$', true, 'by source');
select is(pg_temp.requests($$null, null, 'one', null, null, null, null$$),
    '9 8 7', 'by kind');
select is(pg_temp.requests($$null, null, null, 'w:0', null, null, null$$, 2),
    '8001001 11 | 10 6 | 4 2', 'by work key');
select is(pg_temp.requests(
    $$'api', 'duplicate', 'web', 'w:0', 'i2', null, null$$), '10', 'by all');
select is(pg_temp.requests($$null, null, null, null, 'i2', null, null$$),
    '11 10 2', 'by idempotency key, with its repeats and refusals');
select is(pg_temp.requests($$'shop', null, null, null, 'i1', null, null$$),
    '9', 'and a source, for which it is another one');
select is(pg_temp.requests($$null, null, null, null, 'i99', null, null$$),
    '', 'a key that nobody had');
select is(pg_temp.requests(
    $$null, null, null, 'w:0', null, clock_timestamp(), null$$), '',
    'since is later');
select is(pg_temp.requests($$null, null, null, 'w:0', null,
    clock_timestamp() - interval '1 hour', clock_timestamp()$$, 99),
    '8001001 11 10 6 4 2', 'since and until');
select is(pg_temp.requests($$null, null, null, 'w:0', null, null,
    clock_timestamp() - interval '1 hour'$$), '', 'until is earlier');
select is((select count(*)::int from interlock.requests_list(t.demo(), null,
    null, null, null, null, null, null, 9, 'x'' or true')), 0,
    'a cursor that is none gives no row');
select is((select count(*)::int from interlock.requests_list(
    interlock.tenant_create('other'), null, null, null, null, null, null,
    null, 9, null)), 0, 'another tenant''s are not shown');
select is((select count(*)::int from interlock.requests_list(
    interlock.tenant_create('other'), null, null, null, 'w:0', null, null,
    null, 9, null)), 0, 'nor by their work key');
select is((select count(*)::int from interlock.requests_list(
    interlock.tenant_create('other'), null, null, null, null, 'i2', null,
    null, 9, null)), 0, 'nor by their idempotency key');

select results_eq(
    $$select d ->> 'decision', d ->> 'edge', d ->> 'code', d ->> 'job_id',
          d ->> 'first_request', d ->> 'reason'
      from interlock.requests_list(t.demo(), null, null, null, 'w:0', null,
          null, null, 3, null) x
      cross join lateral (select x.doc::json as d) y where x.doc is not null$$,
    $$values ('duplicate', 'true', '202', t.rid(4)::text, t.rid(4)::text, null),
      ('rejected', 'false', '422', null, t.rid(2)::text,
          'idempotency_key_reused'),
      ('duplicate', 'false', '202', t.rid(2)::text, t.rid(2)::text, null)$$,
    'what each was answered, and who answered');

-- A filter that no index knows: twenty rows a page, found or not.
select t.submit('odd', 'o:1', id => 20);
select t.submit('web', 'x:' || x, id => 100 + x) from generate_series(1, 50) x;
select is(pg_temp.requests($$'api', null, 'odd', null, null, null, null$$),
    ' |  | 20 | ', 'pages without an item go on');
select is(pg_temp.pages('jobs_list(t.demo(), ''odd'', null, null, ''api'',
    null, 3, $1)', 'work_key'), ' |  | o:1 | ',
    'those of jobs too');

-- Ids that say when.
select is(interlock.id_at('2026-07-24 09:00:00.123Z'),
    '019f935a-5afb-0000-0000-000000000000'::uuid, 'the least id of a time');
select is(interlock.id_at('1960-01-01'), interlock.id_at(null),
    'before there were any');
select is(interlock.id_at(clock_timestamp()) between interlock.id_at(
        clock_timestamp() - interval '1 s') and interlock.new_id(), true,
    'between others of that time');
insert into interlock.requests (tenant, id, arrived_at, source, kind,
    work_key, decision, code)
select t.demo(), (substr(interlock.id_at(at)::text, 1, 14)
        || '7' || substr(t.rid(x)::text, 16))::uuid, at, 'then', 'web',
    'then', 'skipped', 200
from generate_series(1, 60) x
cross join lateral (select timestamptz '2026-01-01 00:00Z'
    + x * interval '1 hour') y (at);
select is(pg_temp.pages($$requests_list(t.demo(), null, null, null, null,
        null, '2026-01-02 00:00Z', '2026-01-02 03:00Z', 9, $1)$$, 'at'),
    '2026-01-02T02:00:00.000Z 2026-01-02T01:00:00.000Z '
    || '2026-01-02T00:00:00.000Z', 'a time long ago is found at once');


-- Jobs in each status, each by what finds it.
create function pg_temp.jobs(p_status text, p_kind text default 'st')
returns text language sql as $$
    select pg_temp.short(pg_temp.pages(format('jobs_list(t.demo(), %L, %L, '
        'null, null, null, 2, $1)', p_kind, p_status), 'job_id'))
$$;
select t.kind('st', '{"overlap":"allow"}');
select t.submit('st', 'st:' || x, id => 200 + x) from generate_series(1, 9) x;
select t.take('r' || x, 'st') from generate_series(1, 5) x;
select t.finish('r1', 'complete');
select t.finish('r2', 'fail', p_retryable => false);
select t.finish('r3', 'fail', p_retryable => false);
select t.finish('r4', 'fail', p_retryable => false);
select interlock.job_cancel(t.demo(), t.rid(206), 'a', 'b', 1, 'c');
select is(pg_temp.jobs('queued'), '209 208 | 207', 'queued ones');
select is(pg_temp.jobs('running'), '205', 'running');
select is(pg_temp.jobs('failed'), '204 203 | 202', 'failed');
select is(pg_temp.jobs('canceled'), '206', 'canceled');
select is(pg_temp.jobs('succeeded'), '201 |  |  | ',
    'succeeded, among the others');
select is(pg_temp.jobs('held'), '', 'none is held');
select is(pg_temp.jobs('queued', 'odd'), '20', 'queued ones of a kind');
select is(pg_temp.jobs(null),
    '209 208 | 207 206 | 205 204 | 203 202 | 201 |  | ', 'all');


-- Works.
create function pg_temp.works(p_prefix text, p_kind text, p_state text,
    p_limit int default 3)
returns text language sql as $$
    select pg_temp.pages(format('works_list(t.demo(), %L, %L, %L, %s, $1)',
        p_prefix, p_kind, p_state, p_limit), 'work_key')
$$;
select is(pg_temp.works('st:', null, null),
    'st:1 st:2 st:3 | st:4 st:5 st:6 | st:7 st:8 st:9', 'by prefix');
select is(pg_temp.works('st:', null, 'running'), 'st:5', 'that run');
select is(pg_temp.works('st:', 'st', 'queued'), 'st:7 st:8 st:9',
    'that wait for a worker');
select is(pg_temp.works('st:', null, 'idle', 2),
    'st:1 st:2 | st:3 st:4 | st:6 | ', 'that do nothing');
select is(pg_temp.works('st:', 'web', null), '', 'of another kind');
select is(pg_temp.works(null, 'odd', null) ~ '^[ |]*o:1[ |]*$', true,
    'of a rare kind');
select is(pg_temp.works('w:', null, null), 'w:0 w:1 w:9',
    'a prefix ends where it ends');

select t.submit('all', 'a:1', p, id => 300 + ascii(p))
from unnest(array['A', 'B', 'C', 'D']) p;
select t.submit('all', 'a:2', 'A', id => 400);
select t.take('w', 'all');
select is(pg_temp.works('a:', null, 'running'), 'a:1', 'the one that runs');
select is(pg_temp.works('a:', null, 'parked'), '',
    'what runs is not parked, whatever waits behind it');
select results_eq(
    $$select d ->> 'state', d ->> 'active_job_id', d ->> 'waiting',
          d ->> 'last_status', d ->> 'fence', d ->> 'kind',
          (d ->> 'updated_at')::timestamptz
              > clock_timestamp() - interval '1 minute'
      from interlock.works_list(t.demo(), 'a:1', null, null, 1, null) x
      cross join lateral (select x.doc::json as d) y
      where x.doc is not null$$,
    $$values ('running', t.rid(365)::text, '3', 'running', '1', 'all', true)$$,
    'how it stands');
select t.finish('w', 'complete');
select is((select doc::json ->> 'last_status' from interlock.works_list(
    t.demo(), 'a:1', null, null, 1, null)), 'succeeded', 'and how it ended');
select is((select count(*)::int from interlock.works_list(
    interlock.tenant_create('other'), null, null, s, 9, null)), 0,
    'none of another tenant: ' || coalesce(s, 'any'))
from unnest(array[null, 'idle', 'running', 'queued', 'held', 'checking',
    'parked']) s;

-- A key with more jobs than a page looks at.
select t.submit('web', 'many:0', id => 500 + x) from generate_series(1, 45) x;
select t.submit('web', 'many:1', id => 550);
select is(pg_temp.works('many:', null, 'queued'), 'many:0 | many:1',
    'is there once, and the next one too');


-- Leases.
select t.take('l' || x, 'web') from generate_series(1, 5) x;
create function pg_temp.leases(p_kind text, p_worker text)
returns text language sql as $$
    select pg_temp.short(pg_temp.pages(format('leases_list(t.demo(), %L, %L, '
        '3, $1)', p_kind, p_worker), 'job_id'))
$$;
select is(pg_temp.leases(null, null), '1 2 3 | 4 5 205',
    'by the admission of their jobs');
select is(pg_temp.leases('web', null), '1 2 3 | 4 5', 'of a kind');
select is(pg_temp.leases(null, 'l4'), '4', 'of a worker');
select is(pg_temp.leases(null, 'nobody'), '', 'of nobody');
select t.renew('l4', '{"done":1}', 'half');
select results_eq(
    $$select d ->> 'worker', d ->> 'fence', d ->> 'attempt', d ->> 'step',
          d #>> '{progress,done}', d ->> 'renewals',
          d ->> 'renewed_at' is not null, d ->> 'cancel_requested'
      from interlock.leases_list(t.demo(), null, 'l4', 9, null) x
      cross join lateral (select x.doc::json as d) y$$,
    $$values ('l4', '2', '1', 'half', '1', '1', true, 'false')$$,
    'what is known of one');
select is((select doc::jsonb -> 'lease' from interlock.job_get(
        array[t.demo()], array[t.rid(4)])),
    (select doc::jsonb from interlock.leases_list(t.demo(), null, 'l4', 9,
        null)), 'as its job shows it');
select is((select doc::jsonb ->> 'lease' from interlock.job_get(
    array[t.demo()], array[t.rid(201)])), null, 'none of one that has ended');
select is((select count(*)::int from interlock.leases_list(
    interlock.tenant_create('other'), null, null, 9, null)), 0,
    'none of another tenant');


-- Actions.
select interlock.job_cancel(t.demo(), t.rid(x), 'dana ' || x, 'no', 7,
    'desk') from generate_series(101, 125) x;
select interlock.pause(t.demo(), 'kind', 'odd', 'erin', 'later', 8, 'phone');
create function pg_temp.actions(p_filters text, p_limit int default 10)
returns text language sql as $$
    select pg_temp.pages(format('actions_list(t.demo(), %s, %s, $1)',
        p_filters, p_limit), 'requested_by')
$$;
select is(pg_temp.actions('null, null, null, null', 9),
    (select string_agg(x.name || case when n = 27 then ''
            when n % 9 = 0 then ' | ' else ' ' end, '' order by n)
     from (select 1 as n, 'erin' as name
           union all select 127 - x, 'dana ' || x from generate_series(101, 125) x
           union all select 27, 'a') x), 'newest first');
select is(pg_temp.actions($$'kind_pause', null, null, null$$), 'erin | ',
    'by what was done');
select is(pg_temp.actions($$null, 'dana 102', null, null$$), ' | dana 102',
    'by who did it');
select is(pg_temp.actions($$null, 'phone', null, null$$), 'erin | ',
    'or whose token it was');
select is(pg_temp.actions(
    $$null, null, clock_timestamp() + interval '1 s', null$$), ' | ',
    'since');
select is(pg_temp.actions(
    $$null, null, null, clock_timestamp() - interval '1 h'$$), ' | ',
    'until');
select results_eq(
    $$select d ->> 'what', d ->> 'action', d ->> 'target', d ->> 'work_key',
          d ->> 'job_id', d ->> 'requested_by', d ->> 'reason',
          d ->> 'token_id', d ->> 'token_name'
      from interlock.actions_list(t.demo(), null, 'dana 125', null, null, 1,
          null) x
      cross join lateral (select x.doc::json as d) y
      where x.doc is not null$$,
    $$values ('action', 'job_cancel', t.rid(125)::text, 'x:25',
          t.rid(125)::text, 'dana 125', 'no', '7', 'desk')$$,
    'who did what to what, and why');
select is((select count(*)::int from interlock.actions_list(
    interlock.tenant_create('other'), null, null, null, null, 9, null)), 0,
    'none of another tenant');
select is((select count(*)::int from interlock.actions_list(t.demo(), null,
    null, null, null, 9, '1x')), 0, 'a cursor that is none');


-- Kinds.
select is(pg_temp.pages('kind_list(t.demo(), 2, $1)', 'name'),
    'all odd | one st | web', 'kinds by name');


-- Search.
create function pg_temp.find(p_q text, p_tenant text default 'demo')
returns text language sql as $$
    select coalesce(string_agg(format('%s %s (%s)', d ->> 'what',
        pg_temp.short(d ->> 'id'), d ->> 'why'), ', ' order by n), '')
    from interlock.search(interlock.tenant_create(p_tenant), p_q)
        with ordinality x (doc, n)
    cross join lateral (select x.doc::json as d) y
$$;
select t.providers();
select t.begin('l1', 'mail', 'ask');
select t.outcome('l1', 'mail', 'confirmed', 'ch_17');

select is(pg_temp.find(t.rid(8)::text), 'request 8 (request id)',
    'a request that made no job');
select is(pg_temp.find(upper(t.rid(7)::text)),
    'job 7 (job id), request 7 (request id)', 'a job and its request');
select is(pg_temp.find((select attempt::text from t.held where who = 'l2')),
    'job 2 (attempt id)', 'an attempt that runs');
select is(pg_temp.find((select id::text from interlock.attempts
    where job_id = t.rid(201))), 'job 201 (attempt id)', 'or ended');
select is(pg_temp.find((t.effect('mail')).id::text),
    format('effect %s (effect id)', (t.effect('mail')).id), 'an effect');
select is(pg_temp.find((t.effect('mail')).id || '-1'),
    format('effect %s (effect id)', (t.effect('mail')).id),
    'by the key that its provider got');
select is(pg_temp.find((select s.id::text from interlock.sends s)),
    format('effect %s (send id)', (t.effect('mail')).id), 'one of its sends');
select is(pg_temp.find('ch_17'),
    format('effect %s (provider reference)', (t.effect('mail')).id),
    'a provider''s reference');
select is(pg_temp.find('i2'), 'request 2 (idempotency key), '
    || 'request 10 (idempotency key), request 11 (idempotency key)',
    'an idempotency key: the first one, and what came again');
select is(pg_temp.find('st:5'), 'work st:5 (work key)', 'a work key');
select is(pg_temp.find('a:'),
    'work a:1 (work key begins so), work a:2 (work key begins so)',
    'or how it begins');
select is(pg_temp.find('w:0'), 'work w:0 (work key)', 'just that one');
select is((select count(*)::int from interlock.search(t.demo(), 'x:')), 20,
    'at most twenty');
select is(pg_temp.find('%'), '', 'no pattern');
select is(pg_temp.find('a:2', 'other') || pg_temp.find('i2', 'other')
    || pg_temp.find('ch_17', 'other') || pg_temp.find(t.rid(7)::text, 'other')
    || pg_temp.find('a:', 'other')
    || pg_temp.find((t.effect('mail')).id::text, 'other')
    || pg_temp.find((select attempt::text from t.held where who = 'l2'),
                    'other'),
    '', 'nothing of another tenant');


-- Effects: a filter that no index knows is looked for so far, too.
select t.begin('l2', 'e' || x, 'keys') from generate_series(1, 25) x;
select results_eq(
    $$select x.doc::json ->> 'name', x.cursor is not null
      from interlock.effects_list(t.demo(), null, null, 'ask', null, null, 9,
          null) x$$, $$values (null::text, true)$$,
    'a page without one goes on');
select results_eq(
    $$select y.doc::json ->> 'name'
      from interlock.effects_list(t.demo(), null, null, 'ask', null, null, 9,
          null) x
      cross join lateral interlock.effects_list(t.demo(), null, null, 'ask',
          null, null, 9, x.cursor) y$$, $$values ('mail')$$,
    'to the one that there is');


-- Payloads.
select is((select convert_from(payload, 'UTF8') || ' ' || content_type
    from interlock.job_payload(t.demo(), t.rid(366))),
    'B application/json', 'what came with a job');
select is((select count(*)::int from interlock.job_payload(
    interlock.tenant_create('other'), t.rid(366))), 0,
    'not with another tenant''s');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
