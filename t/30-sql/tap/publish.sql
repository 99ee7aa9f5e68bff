-- publish.sql: publishing by hand and restore; lists of results and jobs.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

create function pg_temp.pub(p_key text, p_revision int) returns text
language sql as $$
    select coalesce(r.problem || ': ' || r.detail,
        'revision ' || (r.doc::json ->> 'revision') || ' of fence '
        || (r.doc::json ->> 'fence'))
    from interlock.work_publish(t.demo(), p_key, p_revision, 'ann', 'bad numbers',
        7, 'ops') r
$$;
create function pg_temp.once(p_version bigint default null) returns text
language plpgsql as $$
begin
    perform t.submit('gen', 'g:1', gen_random_uuid()::text,
                     version => p_version);
    perform t.take('w', 'gen');
    perform t.finish('w', 'complete', '{"n":1}');
    return (select format('published %s of %s', published_revision,
        last_revision) from interlock.works where work_key = 'g:1');
end
$$;

select t.kind('gen', '{"overlap":"buffer_all"}');
select is(pg_temp.once(), 'published 1 of 1', 'one');
select is(pg_temp.once(), 'published 2 of 2', 'two');
select is(pg_temp.pub('g:1', 3), 'not-found: this work key has no revision 3',
    'no such revision');
select is(pg_temp.pub('g:2', 1), 'not-found: no such work key',
    'no such key');

-- Restore, while one runs: its own completion does not override it.
select t.submit('gen', 'g:1', 'x');
select t.take('late', 'gen');
select is(pg_temp.pub('g:1', 1), 'revision 1 of fence 1', 'restored');
select results_eq($$select fence, published_fence, published_revision
    from interlock.works where work_key = 'g:1'$$,
    $$values (4::bigint, 4::bigint, 1)$$, 'with a fence of its own');
select results_eq($$select outcome, revision from t.finish('late',
    'complete')$$, $$values ('ok', 3)$$,
    'who ran meanwhile completes, as a revision');
select is((select published_revision from interlock.works
    where work_key = 'g:1'), 1, 'and does not override the operator');
select is((select doc::json ->> 'published_at' from interlock.work_result(t.demo(),
    'g:1', 3)), null, 'it was never published');
select isnt((select doc::json ->> 'published_at' from interlock.work_result(t.demo(),
    'g:1', 1)), null, 'the restored one is');
select is(pg_temp.pub('g:1', 3), 'revision 3 of fence 3',
    'what did not publish itself may be put forward');
select is(pg_temp.once(), 'published 4 of 4', 'the next run publishes itself');
select is(pg_temp.pub('g:1', 4), 'revision 4 of fence 6',
    'publishing what is published');
select results_eq($$select requested_by, reason, token_id, token_name,
        target, detail ->> 'revision', detail ->> 'before'
    from interlock.actions where what = 'work_publish' order by id limit 1$$,
    $$values ('ann', 'bad numbers', 7::bigint, 'ops', 'g:1', '1', '2')$$,
    'who, why, what');
select throws_ok('update interlock.actions set reason = ''''', '23000', null,
    'which nobody rewrites');
select throws_ok('delete from interlock.publications', '23000', null,
    'nor this');

-- Versions: what is older than what ever was published stays unpublished.
select t.kind('ver', '{"overlap":"allow"}');
select t.submit('ver', 'v:1', '7', version => 7);
select t.take('seven', 'ver');
select t.submit('ver', 'v:1', '8', version => 8);
select t.take('eight', 'ver');
select t.submit('ver', 'v:1', '9', version => 9);
select t.take('nine', 'ver');
select t.finish('eight', 'complete');
select pg_temp.pub('v:1', 1);
select t.finish('seven', 'complete');
select is((select published_revision from interlock.works
    where work_key = 'v:1'), 1, 'an older version stays a revision');
select t.finish('nine', 'complete');
select is((select published_revision from interlock.works
    where work_key = 'v:1'), 1,
    'so does a newer one that started before the restore');
select t.submit('ver', 'v:1', '10', version => 10);
select t.take('ten', 'ver');
select t.finish('ten', 'complete');
select is((select published_version from interlock.works
    where work_key = 'v:1'), 10::bigint, 'a later one publishes itself');
select pg_temp.pub('v:1', 2);
select is((select doc::json ->> 'version' from interlock.work_result(t.demo(),
    'v:1', null)), '7', 'an old version restored is shown as such');
select is((select published_version from interlock.works
    where work_key = 'v:1'), 10::bigint, 'the high water stays');

-- Results by prefix, page by page.
select t.submit('ver', 'site:' || s || ':' || x)
from unnest(array['1', '17', '170', '17%3A']) s, generate_series(1, 3) x;
do $$
begin
    while t.take('w', 'ver') <> 'nothing' loop
        perform t.finish('w', 'complete');
    end loop;
end
$$;
select t.submit('ver', 'site:17:none');
create function pg_temp.keys(p_prefix text, p_limit int, p_cursor text)
returns text language sql as $$
    select coalesce(string_agg(doc::json ->> 'work_key', ' '), '')
        || coalesce(' > ' || max(next), '')
    from interlock.results_list(t.demo(), p_prefix, p_limit, p_cursor)
$$;
select is(pg_temp.keys('site:17:', 9, null),
    'site:17:1 site:17:2 site:17:3', 'by prefix');
select is(pg_temp.keys('site:17:', 2, null),
    'site:17:1 site:17:2 > site:17:2', 'a page');
select is(pg_temp.keys('site:17:', 2, 'site:17:2'), 'site:17:3',
    'and the next');
select is(pg_temp.keys('site:17:', 3, null),
    'site:17:1 site:17:2 site:17:3', 'just one page: no next');
select is(pg_temp.keys('nothing', 3, null), '', 'none');
select is(pg_temp.keys('site:17%', 9, null),
    'site:17%3A:1 site:17%3A:2 site:17%3A:3', 'a % is no pattern');
select is((select count(*)::int from interlock.results_list(t.demo(), null, 100,
    null)), 14, 'all');
select is((select count(*)::int from interlock.results_list(0, null, 100,
    null)), 0, 'another tenant''s are not shown');

-- The job table: pages do not move when jobs come in between.
select t.kind('list', '{"overlap":"allow"}');
select t.submit('list', 'j:' || x % 3, id => 1000 + x,
    source => case x % 2 when 0 then 'api' else 'button' end)
from generate_series(1, 25) x;
create function pg_temp.page(p_cursor text, p_status text default null,
    p_key text default null, p_source text default null)
returns table (ids text, cursor text) language sql as $$
    select string_agg((right(l.doc::json ->> 'job_id', 4)::int - 1000)::text,
            ' ' order by n), max(l.next)
    from interlock.jobs_list(t.demo(), 'list', p_status, p_key, p_source, null, 10,
        p_cursor) with ordinality as l (doc, next, n)
$$;
create temp table pages (n int, ids text, cursor text);
insert into pages select 1, * from pg_temp.page(null);
select t.submit('list', 'j:new', id => 1100 + x)
from generate_series(1, 5) x;
insert into pages select 2, * from pg_temp.page((select cursor from pages
    where n = 1));
insert into pages select 3, * from pg_temp.page((select cursor from pages
    where n = 2));
select is((select string_agg(ids, ' ' order by n) from pages),
    (select string_agg(x::text, ' ') from generate_series(25, 1, -1) x),
    'newest first, each once, whatever came meanwhile');
select is((select cursor from pages where n = 3), null, 'the end');
select is((select ids from pg_temp.page(null, p_key => 'j:2')),
    '23 20 17 14 11 8 5 2', 'of a work key');
select is((select ids from pg_temp.page((select cursor from pages
    where n = 1), p_key => 'j:2')), '14 11 8 5 2', 'with a cursor');
select is((select ids from pg_temp.page((select cursor from pages
    where n = 2), p_source => 'button')), '5 3 1', 'of a source');
select t.take('w', 'list');
select is((select ids from pg_temp.page(null, 'running')), '1', 'of a status');
select is((select count(*)::int from interlock.jobs_list(t.demo(), null, 'queued',
    'j:1', 'button', clock_timestamp() - interval '1 hour', 100, null)), 4,
    'all at once');
select is((select count(*)::int from interlock.jobs_list(t.demo(), null, null,
    null, null, clock_timestamp(), 100, null)), 0, 'since');
select is((select count(*)::int from interlock.jobs_list(t.demo(), null, null, null,
    null, null, 100, 'x'' or true')), 0, 'a cursor that is none');
select is((select count(*)::int from interlock.jobs_list(0, null, null, null,
    null, null, 100, null)), 0, 'another tenant''s are not shown');
select results_eq($$select l.doc::jsonb, g.doc::jsonb is null
    from interlock.jobs_list(t.demo(), 'list', 'running', null, null, null, 1,
        null) l
    left join interlock.job_get(array[t.demo()], array[t.rid(1001)]) g on false$$,
    $$select doc::jsonb - '{attempts,lease}'::text[], true from interlock.job_get(array[t.demo()],
        array[t.rid(1001)])$$, 'the object of job_get, without its attempts and its lease');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
