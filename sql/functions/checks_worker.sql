-- checks_worker.sql: look-ups by workers: a job of kind result-check or
-- effect-check in the same tenant, one a try.  Its payload says what to look
-- for; its result is the answer: {"answer": "found" | "not_found" |
-- "unclear", "provider_ref"?, "detail"?, "result"?}.

-- checks_hand_out(limit): who: the sweep of every interlockd, each second,
-- and again at once while it returns limit rows.
-- Makes the jobs of worker look-ups that are due, at most limit of them.
-- Locks: rows of checks, skipping those that somebody holds; then as submit
-- of work keys that nobody else knows yet.
-- Answers: one row a look-up.
create or replace function interlock.checks_hand_out(p_limit int)
returns table (tenant int, kind text, wake_kinds text[], ended_jobs uuid[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_now   timestamptz := clock_timestamp();
    v_ten   int[];
    v_id    uuid[];
    v_kind  text[];
    v_key   text[];
    v_job   uuid[];
    v_pay   bytea[];
    n       int;
    r       record;
begin
    perform set_config('synchronous_commit', 'on', true);

    select array_agg((y.c).tenant), array_agg((y.c).id),
        array_agg(interlock.check_kind((y.c).subject)),
        array_agg(interlock.check_kind((y.c).subject) || ':' || (y.c).id),
        array_agg(interlock.new_id()),
        array_agg(convert_to(interlock.check_payload(y.c)::text, 'UTF8'))
    into v_ten, v_id, v_kind, v_key, v_job, v_pay
    from (select x as c from interlock.checks x
          where x.type = 'worker' and x.due_at <= v_now
              and x.job_id is null
          order by x.due_at limit p_limit
          for no key update skip locked) y;

    n := cardinality(v_ten);
    if n is null then
        return;
    end if;

    for r in
        select * from interlock.submit(v_ten, v_job,
            array_fill('check'::text, array[n]),
            array_fill(null::text, array[n]),
            array_fill(null::bytea, array[n]),
            array_fill('reject'::text, array[n]), v_kind, v_key,
            array_fill(null::bigint, array[n]), v_pay,
            array_fill('application/json'::text, array[n]),
            array_fill('{}'::text, array[n]),
            array_fill(null::text, array[n]),
            array_fill(null::int, array[n]),
            array_fill(null::timestamptz, array[n]),
            array_fill(null::timestamptz, array[n]),
            array_fill(false, array[n]), array_fill(null::text, array[n]),
            array_fill(null::text, array[n]), false)
    loop
        continue when r.outcome = 'busy';

        -- What could not be handed out is found by checks_unanswered.
        update interlock.checks c
        set tries = c.tries + 1, started_at = v_now, job_id = v_job[r.ord],
            due_at = case when r.outcome = 'ok' and r.code = 202
                     then v_now + interval '30 seconds' else v_now end
        where c.tenant = v_ten[r.ord] and c.id = v_id[r.ord];

        tenant := v_ten[r.ord];
        kind := v_kind[r.ord];
        wake_kinds := r.wake_kinds;
        ended_jobs := r.ended_jobs;
        return next;
    end loop;
end
$$;

-- check_kind(subject): the kind of the jobs that look it up.
create or replace function interlock.check_kind(p_subject text) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case p_subject when 'job' then 'result-check'
        else 'effect-check' end
$$;

-- check_payload(c): what the worker is told.
create or replace function interlock.check_payload(c interlock.checks)
returns json
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select json_build_object('check_id', c.id, 'try', c.tries + 1,
        'subject', c.subject, 'target', c.target, c.subject,
        (select coalesce(json_object_agg(ltrim(x.key, '%'), x.value), '{}')
         from json_each(c.vars::json) x
         where json_typeof(x.value) <> 'null'))
$$;

-- checks_unanswered(limit): who: the sweep of every interlockd, each second,
-- and again at once while it returns limit rows.
-- Finds worker look-ups whose job ended without an answer, or never was:
-- unclear.  Looks at each one every 30 s, and when its job ends.
-- Locks: as checks_answer, for those it may have without waiting.
-- Answers: one row a look-up that was settled or is tried again.
create or replace function interlock.checks_unanswered(p_limit int)
returns table (tenant int, kind text, wake_kinds text[], ended_jobs uuid[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_now  timestamptz := clock_timestamp();
    v_ten  int[];
    v_id   uuid[];
    v_try  int[];
    v_why  text[];
    v_kind text[];
    n      int;
    r      record;
begin
    perform set_config('synchronous_commit', 'on', true);

    for r in
        select c.tenant, c.id, c.tries, j.status, j.error
        from (select x.tenant, x.id, x.tries, x.job_id
              from interlock.checks x
              where x.type = 'worker' and x.due_at <= v_now
                  and x.job_id is not null
              order by x.due_at limit p_limit
              for no key update skip locked) c
        left join lateral (
            select x.status, x.error from interlock.jobs x
            where x.tenant = c.tenant and x.id = c.job_id
            limit 1) j on true
    loop
        if r.status in ('queued', 'running', 'checking', 'held', 'parked')
        then
            update interlock.checks x
            set due_at = v_now + interval '30 seconds'
            where x.tenant = r.tenant and x.id = r.id;
        else
            v_ten := v_ten || r.tenant;
            v_id := v_id || r.id;
            v_try := v_try || r.tries;
            v_why := v_why || coalesce('the worker''s look-up ended '
                || r.status || coalesce(': ' || r.error, ''),
                'no job could be made for the look-up: is there such a '
                'kind?');
        end if;
    end loop;

    -- The work comes before the check: so another statement, and none of
    -- somebody who is at it.
    select array_agg(u.tenant), array_agg(u.id), array_agg(u.try),
        array_agg(u.why), array_agg(c.kind)
    into v_ten, v_id, v_try, v_why, v_kind
    from unnest(v_ten, v_id, v_try, v_why) as u (tenant, id, try, why)
    cross join lateral (
        select x.tenant, x.work_key, interlock.check_kind(x.subject) as kind
        from interlock.checks x
        where x.tenant = u.tenant and x.id = u.id
        limit 1) c
    cross join lateral (
        select from interlock.works w
        where w.tenant = c.tenant and w.work_key = c.work_key
        for no key update skip locked) w;

    n := cardinality(v_ten);
    if n is null then
        return;
    end if;

    return query
    select v_ten[a.ord], v_kind[a.ord], a.wake_kinds, a.ended_jobs
    from interlock.check_apply_all(v_ten, v_id, v_try,
        array_fill('unclear'::text, array[n]), v_why,
        array_fill(null::text, array[n]),
        array_fill(null::text, array[n])) a;
end
$$;

-- check_job_ended(l, j, call, result): a job ended (and is among the ended
-- ones) that looks something up.
-- A completed one's result is the answer, given in the same transaction; if
-- it ended in another way, checks_unanswered will find that.
-- Helper of attempt_end; owner_lock has locked the work of the subject too.
create or replace function interlock.check_job_ended(
    l interlock.leases, j interlock.jobs, p_call text, p_result text)
returns interlock.check_result
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    c         interlock.checks;
    a         interlock.check_result;
    v_json    json;
    v_answer  text;
    v_detail  text;
begin
    a.ended_jobs := '{}';
    a.wake_kinds := '{}';
    a.groups := '{}';

    select * into c from interlock.checks x
    where x.tenant = j.tenant and x.job_id = j.id
    for update;
    if not found then
        return a;
    end if;

    if p_call <> 'complete' then
        update interlock.checks x set due_at = clock_timestamp()
        where x.tenant = c.tenant and x.id = c.id;
        return a;
    end if;

    v_json := interlock.json_object_of(p_result);
    v_answer := v_json ->> 'answer';
    v_detail := v_json ->> 'detail';
    if coalesce(v_answer, '') not in ('found', 'not_found', 'unclear') then
        v_answer := 'unclear';
        v_detail := 'the worker''s result has no "answer" that is found, '
            'not_found or unclear';
    end if;

    -- The look began when this attempt did, not when its job was made.
    update interlock.checks x set started_at = l.granted_at
    where x.tenant = c.tenant and x.id = c.id;

    return interlock.check_apply(c.tenant, c.id, c.tries, v_answer,
        v_detail, v_json ->> 'provider_ref',
        case when json_typeof(v_json -> 'result') <> 'null'
            then (v_json -> 'result')::text end);
end
$$;

revoke all on function interlock.checks_hand_out(int) from public;
revoke all on function interlock.check_kind(text) from public;
revoke all on function interlock.check_payload(interlock.checks)
    from public;
revoke all on function interlock.checks_unanswered(int) from public;
revoke all on function interlock.check_job_ended(interlock.leases,
    interlock.jobs, text, text) from public;
grant execute on function interlock.checks_hand_out(int)
    to interlock_service;
grant execute on function interlock.checks_unanswered(int)
    to interlock_service;
