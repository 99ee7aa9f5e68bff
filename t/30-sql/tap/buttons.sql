-- buttons.sql: whether a ticket could be of use, and how a button's work
-- stands.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

select t.kind('b', '{"overlap":"buffer_one"}');
select t.kind('tpl', '{"overlap":"skip","key_template":"look:{what}"}');

create function pg_temp.ticket(p_kind text, p_key text,
    p_tenant text default 'demo')
returns text language sql as $$
    select coalesce(x.problem, 'good') || coalesce(': ' || x.detail, '')
    from interlock.ticket_check(interlock.tenant_create(p_tenant), p_kind,
        p_key) x
$$;

create function pg_temp.stands(p_kind text, p_key text,
    p_tenant text default 'demo')
returns text language sql as $$
    select concat_ws(' / ', coalesce(x.active::json ->> 'job_id', '-')
            || coalesce(' ' || (x.active::json ->> 'status'), ''),
        coalesce(x.last::json ->> 'job_id', '-')
            || coalesce(' ' || (x.last::json ->> 'status'), ''))
    from interlock.button_work(interlock.tenant_create(p_tenant), p_kind,
        p_key) x
$$;

-- Tickets.
select is(pg_temp.ticket('b', 'b:1'), 'good', 'a kind and a key');
select is(pg_temp.ticket('none', 'b:1'), 'kind-unknown: no kind "none"',
    'an unknown kind');
select is(pg_temp.ticket('b', 'b:1', 'other'),
    'kind-unknown: no kind "b"', 'another tenant has kinds of its own');
select is(pg_temp.ticket('tpl', 'look:x'), 'good', 'by its template');
select is(pg_temp.ticket('tpl', 'look:x:y'), 'work-key-mismatch: a work key '
    'of kind "tpl" is of the form look:{what}', 'and not');
select t.kind('effect-check', '{}');
select matches(pg_temp.ticket('effect-check', 'x'), '^field-invalid: .*look-ups',
    'look-ups have no button');

select is((select decision from t.submit('b', 'b:1', id => 1)), 'accepted',
    'a job');
select is(pg_temp.ticket('b', 'b:1'), 'good', 'its key is its kind''s');
select is(pg_temp.ticket('tpl', 'look:b'), 'good', 'a key of nobody');
select t.kind('c', '{}');
select is(pg_temp.ticket('c', 'b:1'),
    'work-kind: this work key belongs to kind "b"', 'a key of another kind');

-- How it stands.
select is(pg_temp.stands('b', 'b:1'), t.rid(1) || ' queued / -', 'it waits');
select t.take('w', 'b');
select is(pg_temp.stands('b', 'b:1'), t.rid(1) || ' running / -', 'it runs');
select is((select decision from t.submit('b', 'b:1', 'B', id => 2)),
    'buffered', 'another waits behind it');
select is(pg_temp.stands('b', 'b:1'), t.rid(1) || ' running / -',
    'the one that runs counts');
select is(pg_temp.stands('c', 'b:1'), '- / -', 'by another kind: nothing');
select is(pg_temp.stands('b', 'b:2'), '- / -', 'by another key');
select is(pg_temp.stands('b', 'b:1', 'other'), '- / -', 'by another tenant');
select is((select outcome from t.finish('w', 'complete')), 'ok', 'it ends');
select is(pg_temp.stands('b', 'b:1'),
    t.rid(2) || ' queued / ' || t.rid(1) || ' succeeded',
    'the one behind it is next, and it was the last');
select t.take('w', 'b');
select is((select outcome from t.finish('w', 'fail', p_retryable => false)),
    'ok', 'which fails');
select is(pg_temp.stands('b', 'b:1'), '- / ' || t.rid(2) || ' failed',
    'the last one is the newest');

-- Superseded ones are not what became of the work.
select t.submit('b', 'b:1', 'D', id => 4);
select t.take('w', 'b');
select t.submit('b', 'b:1', 'E', id => 5);
select t.submit('b', 'b:1', 'F', id => 6);
select is((select j.status from interlock.jobs j where j.id = t.rid(5)),
    'superseded', 'one was superseded');
select is(pg_temp.stands('b', 'b:1'),
    t.rid(4) || ' running / ' || t.rid(2) || ' failed', '... and is not shown');

select * from finish();
rollback;
