-- hold.sql: where an edge may answer repeats by itself, and that it then says
-- what the database would have said.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

-- Every policy, in every state of the key; a repeat is tried and undone.
create temp table seen (overlap text, completed text, busy text, state text,
    decision text, reason text, hold int, again text, same boolean);

create function pg_temp.put_to(p_key text, p_kind text, p_state text)
returns void language plpgsql as $$
begin
    if p_state = 'new' then
        return;
    end if;

    perform t.submit(p_kind, p_key, 'A');
    if p_state in ('running', 'waiting', 'ending') then
        perform t.take(p_key, p_kind);
    end if;
    if p_state = 'waiting' then
        perform t.submit(p_kind, p_key, 'B');
    elsif p_state = 'ending' then
        perform interlock.job_cancel(h.tenant, h.job, 'somebody', 'because',
            null, null, interlock.new_id())
        from t.held h where h.who = p_key;
    end if;
end
$$;

create function pg_temp.try_all() returns void language plpgsql as $$
declare
    r  record;
    a  interlock.submit_answer;
    b  interlock.submit_answer;
begin
    for r in
        select o, c, y, s, p, format('k%s', row_number() over ()) as kind
        from unnest('{allow,skip,buffer_one,buffer_first,buffer_all,replace}'
                    ::text[]) o,
            unnest('{run,return}'::text[]) c, unnest('{skip,error}'::text[]) y,
            unnest('{new,queued,running,waiting,ending}'::text[]) s,
            unnest('{A,B,C}'::text[]) p
    loop
        perform t.kind(r.kind, jsonb_build_object('overlap', r.o,
            'when_completed', r.c, 'on_busy', r.y)::text);
        perform pg_temp.put_to(r.kind, r.kind, r.s);
        a := t.submit(r.kind, r.kind, r.p);
        b := t.submit(r.kind, r.kind, r.p);
        insert into seen values (r.o, r.c, r.y, r.s, a.decision, a.reason,
            a.hold, b.decision, b.job_id is not distinct from a.job_id);
    end loop;
end
$$;

select pg_temp.try_all();

select cmp_ok((select count(*)::int from seen where hold is not null), '>=',
    40, 'it is granted in many cases');
select is_empty($$select * from seen where hold is not null
    and not (again = 'skipped' and same)$$,
    'and in each of them a repeat is skipped, with that job');
select is_empty($$select * from seen where hold is not null
    and (overlap in ('allow', 'buffer_all') or busy = 'error')$$,
    'never where each request is to be a job, or to hear of the other');
select is_empty($$select * from seen where hold <> 1000$$, 'a second');
select is_empty($$select * from seen where hold is null and overlap = 'skip'
    and busy = 'skip'$$, 'always under skip');
select is_empty($$select * from seen where hold is null
    and completed = 'return' and overlap in ('buffer_one', 'buffer_first',
    'replace') and busy = 'skip'$$,
    'always where the same work is not done twice');
select set_eq($$select overlap, decision from seen where completed = 'run'
    and hold is not null and overlap <> 'skip'$$,
    $$values ('buffer_first', 'buffered'), ('buffer_first', 'skipped')$$,
    'else where one waits already');

-- What is set, and what is no repeat.
select t.kind('two', '{"hold":2}');
select t.kind('none', '{"hold":0}');
select t.kind('f', '{"allow_fresh":true,"when_completed":"return"}');
select is((select hold from t.submit('two', 'h:2', '1')), 2000, 'two seconds');
select is((select hold from t.submit('two', 'h:2', '2')), 2000,
    'of another content, too');
select is((select hold from t.submit('none', 'h:0', '1')), null, 'none');
select is((select hold from t.submit('f', 'h:f', '1', fresh => true)), null,
    'fresh: none, for it means to run again');
select is((select hold from t.submit('f', 'h:f', '1', fresh => true)), null,
    'nor where it is skipped');
select is((select hold from t.submit('two', 'h:i', '1', 'key')), 2000,
    'with an idempotency key');
select is((select hold from t.submit('two', 'h:i', '1', 'key')), null,
    'the first answer again grants nothing: what it says may be long ago');
select is((select hold from t.submit('two', 'h:r', '1', id => 7)), 2000,
    'a request');
select is((select hold from t.submit('two', 'h:r', '1', id => 7)), null,
    'and the same one after a lost answer');
select is((select hold from t.submit('two', 'h:v', '1', version => 5)), 2000,
    'a version');
select is((select hold from t.submit('two', 'h:v', '1', version => 4)), null,
    'an older one is skipped for what it is');

select is((select detail from interlock.kind_put(
    interlock.tenant_create('demo'), 'x', '{"hold":3}')),
    '"hold" must be between 0 and 2', 'at most two seconds');

select * from finish();
rollback;
