-- checks.sql: look-ups, from their making to their answer.  A check is an
-- open question about a job (is its result there?) or an effect (did it
-- happen?).  Locks: a row of checks comes after the work of its subject.

-- check_make(tenant, subject, target, spec, vars, seq, delay): opens the
-- question about a job or an effect; one that is open is replaced.  spec as
-- check_spec_trouble has it, with delay, backoff, max_backoff and max_checks
-- as the caller wants them; vars a flat object of texts, with work_key.  A
-- name in vars that begins with "%" is percent-encoded as in a work key.
-- Caller holds the work.  Answers the check's id; null for type none.
create or replace function interlock.check_make(
    p_tenant int, p_subject text, p_target uuid, p_spec json, p_vars json,
    p_seq bigint, p_delay int)
returns uuid
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_id  uuid;
begin
    perform interlock.check_drop(p_tenant, p_target);

    if p_spec ->> 'type' = 'none' then
        return null;
    end if;

    insert into interlock.checks (tenant, subject, target, work_key, type,
        spec, vars, seq, due_at, backoff, max_backoff, max_checks, timeout)
    values (p_tenant, p_subject, p_target, p_vars ->> 'work_key',
        p_spec ->> 'type', p_spec::text, p_vars::text, p_seq,
        clock_timestamp() + make_interval(secs => greatest(coalesce(p_delay,
            (p_spec ->> 'delay')::int, 0), 0)),
        coalesce((p_spec ->> 'backoff')::int, 5),
        coalesce((p_spec ->> 'max_backoff')::int, 600),
        coalesce((p_spec ->> 'max_checks')::int, 10),
        coalesce((p_spec ->> 'timeout')::int, 5))
    returning id into v_id;

    return v_id;
end
$$;

-- check_drop(tenant, target): nobody asks any more.  Caller holds the work.
create or replace function interlock.check_drop(p_tenant int, p_target uuid)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    delete from interlock.checks c
    where c.tenant = p_tenant and c.target = p_target;
end
$$;

-- checks_take(limit): who: the look-up threads of every interlockd.
-- Takes look-ups over HTTP that are due, at most limit of them.  Who takes
-- one has its timeout and 20 s to answer; then somebody else takes it.
-- Locks: rows of checks, skipping those that somebody holds.
create or replace function interlock.checks_take(p_limit int)
returns table (tenant int, check_id uuid, try int, subject text, spec text,
    vars text, seq bigint, started_at timestamptz)
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
begin
    perform set_config('synchronous_commit', 'on', true);

    return query
    update interlock.checks c
    set tries = c.tries + 1, started_at = v_now,
        due_at = v_now + make_interval(secs => c.timeout + 20)
    from (select x.ctid as tid from interlock.checks x
          where x.type = 'http' and x.due_at <= v_now
          order by x.due_at limit p_limit
          for no key update skip locked) d
    where c.ctid = d.tid
    returning c.tenant, c.id, c.tries, c.subject, c.spec, c.vars, c.seq,
        c.started_at;
end
$$;

-- checks_answer(…): who: interlockd, with what look-ups said: found,
-- not_found or unclear, in words, with a reference and a result (JSON) if
-- they brought one.
-- Locks: works in key order, then the rows of each subject; last the limit
-- groups that got room.
-- Answers one row a look-up; outcome as in check_result.  An answer to a try
-- that is not the present one changes nothing.
create or replace function interlock.checks_answer(
    p_tenant int[], p_check uuid[], p_try int[], p_answer text[],
    p_detail text[], p_ref text[], p_result text[])
returns table (ord int, subject text, target uuid, outcome text,
    wake_kinds text[], ended_jobs uuid[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
    perform set_config('synchronous_commit', 'on', true);

    perform from (
        select distinct c.tenant, c.work_key
        from unnest(p_tenant, p_check) u (tenant, id)
        cross join lateral (
            select x.tenant, x.work_key from interlock.checks x
            where x.tenant = u.tenant and x.id = u.id
            limit 1) c
        order by c.tenant, c.work_key) k
    cross join lateral (
        select from interlock.works w
        where w.tenant = k.tenant and w.work_key = k.work_key
        for no key update) w;

    return query
    select * from interlock.check_apply_all(p_tenant, p_check, p_try,
        p_answer, p_detail, p_ref, p_result);
end
$$;

-- check_apply_all(…): helper of checks_answer and checks_unanswered, with
-- their arguments and answers; the caller holds the works.
create or replace function interlock.check_apply_all(
    p_tenant int[], p_check uuid[], p_try int[], p_answer text[],
    p_detail text[], p_ref text[], p_result text[])
returns table (ord int, subject text, target uuid, outcome text,
    wake_kinds text[], ended_jobs uuid[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_group    text[] := '{}';
    v_gten     int[] := '{}';
    v_subject  text[] := '{}';
    v_target   uuid[] := '{}';
    v_outcome  text[] := '{}';
    v_wake     jsonb[] := '{}';
    v_ended    jsonb[] := '{}';
    v_freed    jsonb := '{}';
    a          interlock.check_result;
    r          record;
begin
    for i in 1 .. cardinality(p_tenant) loop
        select x.subject, x.target into r from interlock.checks x
        where x.tenant = p_tenant[i] and x.id = p_check[i];

        a := interlock.check_apply(p_tenant[i], p_check[i], p_try[i],
            p_answer[i], p_detail[i], p_ref[i], p_result[i]);

        v_subject := v_subject || r.subject;
        v_target := v_target || r.target;
        v_outcome := v_outcome || a.outcome;
        v_wake := v_wake || to_jsonb(a.wake_kinds);
        v_ended := v_ended || to_jsonb(a.ended_jobs);

        if a.groups <> '{}' then
            v_group := v_group || a.groups;
            v_gten := v_gten || array_fill(p_tenant[i],
                array[cardinality(a.groups)]);
        end if;
    end loop;

    if cardinality(v_group) > 0 then
        select coalesce(jsonb_object_agg(x.tenant, x.kinds), '{}')
        into v_freed
        from (select g.tenant, jsonb_agg(distinct g.kind) as kinds
              from interlock.groups_settle(v_gten, v_group) g
              group by g.tenant) x;
    end if;

    return query
    select u.ord::int, u.subject, u.target, u.outcome,
        array(select jsonb_array_elements_text(u.wake || case
            when u.ord = array_position(p_tenant, p_tenant[u.ord::int])
            then coalesce(v_freed -> p_tenant[u.ord::int]::text, '[]')
            else '[]' end)),
        array(select x::uuid from jsonb_array_elements_text(u.ended) x)
    from unnest(v_subject, v_target, v_outcome, v_wake, v_ended)
        with ordinality as u (subject, target, outcome, wake, ended, ord)
    order by u.ord;
end
$$;

-- check_apply(tenant, check, try, answer, detail, ref, result): one answer.
-- One that asks for a later time (due_at) is not counted as unclear.  Caller
-- holds the work of the subject.
create or replace function interlock.check_apply(
    p_tenant int, p_check uuid, p_try int, p_answer text, p_detail text,
    p_ref text, p_result text)
returns interlock.check_result
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    c  interlock.checks;
    a  interlock.check_result;
begin
    select * into c from interlock.checks x
    where x.tenant = p_tenant and x.id = p_check
    for update;

    if not found or c.tries <> p_try or c.started_at is null then
        a.outcome := 'gone';
        a.ended_jobs := '{}';
        a.wake_kinds := '{}';
        a.groups := '{}';
        return a;
    end if;

    a := interlock.check_tell(c, p_answer, p_detail, p_ref, p_result);

    if a.outcome = 'again' then
        update interlock.checks x
        set unclear = c.unclear
                + case when a.due_at is null then 1 else 0 end,
            started_at = null, job_id = null,
            due_at = coalesce(a.due_at, clock_timestamp() + make_interval(
                secs => (0.75 + random() / 2) * least(
                    c.max_backoff::float8,
                    c.backoff::float8 * 2 ^ least(c.unclear, 30))))
        where x.tenant = p_tenant and x.id = p_check;
    else
        delete from interlock.checks x
        where x.tenant = p_tenant and x.id = p_check;
    end if;

    insert into interlock.check_answers (tenant, check_id, subject, target,
        work_key, seq, try, started_at, answer, detail, ref, outcome)
    values (c.tenant, c.id, c.subject, c.target, c.work_key, c.seq, c.tries,
        c.started_at, p_answer, left(p_detail, 500), left(p_ref, 255),
        a.outcome);

    a.ended_jobs := coalesce(a.ended_jobs, '{}');
    a.wake_kinds := coalesce(a.wake_kinds, '{}');
    a.groups := coalesce(a.groups, '{}');
    return a;
end
$$;

-- check_tell(c, answer, detail, ref, result): tells the subject, and asks
-- whether that settles it.
create or replace function interlock.check_tell(
    c interlock.checks, p_answer text, p_detail text, p_ref text,
    p_result text)
returns interlock.check_result
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_last  boolean := c.unclear + 1 >= c.max_checks;
    a       interlock.check_result;
begin
    if c.subject = 'job' then
        a.outcome := case when p_answer <> 'unclear' then p_answer
                     when v_last then 'exhausted' else 'again' end;
        if a.outcome <> 'again' then
            select x.ended_jobs, x.wake_kinds, x.groups
            into a.ended_jobs, a.wake_kinds, a.groups
            from interlock.job_checked(c.tenant, c.target, a.outcome,
                p_detail, p_result) x;
            if a.outcome = 'exhausted' then
                perform interlock.alert_exhausted(c.tenant, c.target);
            end if;
        end if;
    else
        a := interlock.effect_looked_up(c.tenant, c.target, c.seq, p_answer,
            p_detail, p_ref, c.started_at);
        if a.outcome = 'again' and a.due_at is null and v_last then
            a := interlock.effect_looked_up(c.tenant, c.target, c.seq,
                'exhausted', p_detail, p_ref, c.started_at);
        end if;
    end if;

    return a;
end
$$;

revoke all on function interlock.check_make(int, text, uuid, json, json,
    bigint, int) from public;
revoke all on function interlock.check_drop(int, uuid) from public;
revoke all on function interlock.check_apply_all(int[], uuid[], int[],
    text[], text[], text[], text[]) from public;
revoke all on function interlock.check_apply(int, uuid, int, text, text,
    text, text) from public;
revoke all on function interlock.check_tell(interlock.checks, text, text,
    text, text) from public;
revoke all on function interlock.checks_take(int) from public;
revoke all on function interlock.checks_answer(int[], uuid[], int[], text[],
    text[], text[], text[]) from public;
grant execute on function interlock.checks_take(int) to interlock_service;
grant execute on function interlock.checks_answer(int[], uuid[], int[],
    text[], text[], text[], text[]) to interlock_service;
