-- unsettled.sql: jobs and lines that wait for effects of an attempt that has
-- ended.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

select t.providers();
select t.kind('job', '{"overlap":"buffer_all","max_attempts":2,"backoff":0}');
select t.kind('one', '{"overlap":"buffer_one","effect_scope":"work"}');
select t.kind('work', '{"overlap":"buffer_all","effect_scope":"work","max_waiting":2}');
select t.kind('skip', '{"overlap":"skip","effect_scope":"work"}');

create function pg_temp.job(p_job bigint) returns text language sql as $$
    select concat_ws(' ', j.status, j.place, j.waits_on)
    from interlock.jobs j where j.id = t.rid(p_job)
$$;

create function pg_temp.shows(p_job bigint) returns text language sql as $$
    select g.doc::json ->> 'waits_for'
    from interlock.job_get(array[t.demo()], array[t.rid(p_job)]) g
$$;

-- Takes a job of that kind, begins an effect that nobody can look up, and is
-- lost with it (or fails for good).
create function pg_temp.sends(p_who text, p_kind text, p_effect text,
    p_end text) returns text language plpgsql as $$
declare
    v_status  text;
begin
    perform t.take(p_who, p_kind);
    perform t.begin(p_who, p_effect, 'mute');
    if p_end = 'lost' then
        perform t.expire(p_who);
        select r.status into v_status from interlock.recover(9) r;
    else
        select f.status into v_status
        from t.finish(p_who, p_end, p_retryable => false) f;
    end if;
    return v_status;
end
$$;

-- Its own retry waits.
select submit.ord from t.submit('job', 'j:1', id => 1);
select submit.ord from t.submit('job', 'j:1', id => 2);
select is(pg_temp.sends('w', 'job', 'mail', 'lost'), 'checking',
    'lost with an effect that is unknown: checking');
select is(pg_temp.job(1), 'checking effects', 'for its effects');
select is(pg_temp.shows(1), 'effects', 'as it shows');
select is(pg_temp.job(2), 'queued blocked', 'it keeps its key');
select is(t.take('w', 'job'), 'nothing', 'nobody runs');
select results_eq(
    $$select labels::json ->> 'state', value from interlock.stats()
      where name = 'queue_depth' and labels::json ->> 'kind' = 'job'
      order by 1$$,
    $$values ('checking', 1::float8), ('waiting', 1)$$, 'and it is counted');
select is_empty('select * from t.violations', 'nothing is violated');
select results_eq(
    $$select problem, wake_kinds from t.resolve('mail', 'not_happened')$$,
    $$values (null, array['job'])$$, 'settled');
select is(pg_temp.job(1), 'queued ready', 'it runs again');

-- A failure that may be tried again, and a release, wait likewise.
select t.take('w', 'job');
select t.begin('w', 'mail', 'mute');
select is((select status from t.finish('w', 'release')), 'checking',
    'released with an open send: checking');
select problem from t.resolve('mail', 'happened');
select is(pg_temp.job(1), 'queued ready', 'and on, when settled');
select t.take('w', 'job');
select t.begin('w', 'sms', 'mute');
select is((select status from t.finish('w', 'fail')), 'failed',
    'out of attempts: failed, whatever its effects');
select is(pg_temp.job(2), 'queued ready',
    'scope job: its effects hold back no other job');
select is_empty('select * from t.violations', 'nothing is violated');

-- What somebody decides about a checking job.
select is(pg_temp.sends('w', 'job', 'letter', 'lost'), 'checking', 'checking');
select d.problem from t.decide(2, 'release') d;
select is(pg_temp.job(2), 'queued ready', 'released: it runs, uncounted');
select is((select decision from t.take('w', 'job') x, t.begin('w', 'letter', 'mute')),
    'needs_human', 'the effect is not sent again by itself');
select t.expire('w');
select r.status from interlock.recover(9) r;
select is(pg_temp.job(2), 'checking effects', 'lost: checking again');
select results_eq(
    $$select c.problem, c.doc::json ->> 'status'
      from interlock.job_cancel(t.demo(), t.rid(2), 'who', 'why', 1, 'op') c$$,
    $$values (null, 'canceled')$$, 'canceled while checking, at once');
select problem from t.resolve('letter', 'happened');
select is(pg_temp.job(2), 'canceled', 'what is settled later changes nothing');

-- Scope work: the next job of the key waits.
select submit.ord from t.submit('work', 'w:1', 'A', id => 11);
select submit.ord from t.submit('work', 'w:1', 'B', id => 12);
select is(pg_temp.sends('w', 'work', 'post', 'fail'), 'failed',
    'failed for good with an open send');
select is(pg_temp.job(12), 'queued blocked effects',
    'the next one of its key is held back');
select is(pg_temp.shows(12), 'effects', 'as it shows');
select is_empty('select * from t.violations', 'nothing is violated');
select results_eq(
    $$select decision, active_job_id from t.submit('work', 'w:1', 'C', id => 13)$$,
    $$values ('buffered', t.rid(12))$$, 'nobody overtakes it');
select is((select decision from t.submit('work', 'w:1', 'D', id => 14)),
    'rejected', 'its line is bounded as ever');
select results_eq(
    $$select x ->> 'job_id' from interlock.work_get(t.demo(), 'w:1') g,
          json_array_elements(g.doc::json -> 'waiting') x$$,
    $$values (t.rid(12)::text), (t.rid(13)::text)$$, 'as the work shows');
select is((select d.problem from t.decide(11, 'retry') d), 'work-active',
    'the failed one has no room either');
select results_eq(
    $$select wake_kinds from t.resolve('post', 'not_happened')$$,
    $$values (array['work'])$$, 'settled');
select is(pg_temp.job(12), 'queued ready', 'the line goes on');
select is(pg_temp.job(13), 'queued blocked', 'in its order');

-- Canceled while it is held back: the next one is.
select is(pg_temp.sends('w', 'work', 'post', 'fail'), 'failed', 'again');
select is(pg_temp.job(13), 'queued blocked effects', 'held back');
select submit.ord from t.submit('work', 'w:1', 'E', id => 15);
select c.problem from interlock.job_cancel(t.demo(), t.rid(13), 'who', 'why', 1,
    'op') c;
select is(pg_temp.job(15), 'queued blocked effects', 'the next one is held back');
select wake_kinds from t.resolve('post', 'not_happened');
select is(pg_temp.job(15), 'queued ready', 'until it is settled');

-- buffer_one: the latest waits in its place.
select submit.ord from t.submit('one', 'o:1', 'A', id => 21);
select t.take('w', 'one');
select t.begin('w', 'call', 'mute');
select submit.ord from t.submit('one', 'o:1', 'B', id => 22);
select t.expire('w');
select is((select status from interlock.recover(9)), 'superseded',
    'lost while another one waits: that one takes over');
select is(pg_temp.job(22), 'queued blocked effects',
    'once the effect is settled');
select results_eq(
    $$select decision, superseded_job_id
      from t.submit('one', 'o:1', 'C', id => 23)$$,
    $$values ('buffered', t.rid(22))$$, 'a later one takes its place');
select is(pg_temp.job(23), 'queued blocked effects', 'and waits as it did');
select is_empty('select * from t.violations', 'nothing is violated');
select results_eq(
    $$select wake_kinds from t.resolve('call', 'happened')$$,
    $$values (array['one'])$$, 'settled');
select is(pg_temp.job(23), 'queued ready', 'it runs');

-- A checking head, and one comes to wait: when settled, that one takes over.
select t.take('w', 'one');
select t.begin('w', 'call2', 'mute');
select t.expire('w');
select is((select status from interlock.recover(9)), 'checking', 'checking');
select submit.ord from t.submit('one', 'o:1', 'D', id => 24);
select results_eq(
    $$select wake_kinds, ended_jobs from t.resolve('call2', 'not_happened')$$,
    $$values (array['one'], array[t.rid(23)])$$, 'settled');
select is(pg_temp.job(23), 'superseded', 'its retry meets a waiting twin');
select is(pg_temp.job(24), 'queued ready', 'which runs');

-- What only its own retry may send again, it does, whoever waits.
select t.take('w', 'one');
select t.begin('w', 'charge', 'keys');
select submit.ord from t.submit('one', 'o:1', 'E', id => 25);
select t.expire('w');
select is((select status from interlock.recover(9)), 'queued',
    'lost with an effect that its provider knows by its key: it runs again');
select is(pg_temp.job(25), 'queued blocked', 'before the one that waits');
select t.take('w', 'one');
select is((select decision from t.begin('w', 'charge', 'keys')), 'send',
    'sends it again');
select outcome from t.outcome('w', 'charge', 'confirmed');
select is((select status from t.finish('w', 'fail')), 'superseded',
    'and then gives way');
select is(pg_temp.job(25), 'queued ready', 'to the one that waits');

-- skip: the answer is the active one.
select submit.ord from t.submit('skip', 's:1', id => 31);
select is(pg_temp.sends('w', 'skip', 'page', 'lost'), 'checking', 'checking');
select results_eq(
    $$select decision, active_job_id from t.submit('skip', 's:1', id => 32)$$,
    $$values ('skipped', t.rid(31))$$, 'skipped for the checking one');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
