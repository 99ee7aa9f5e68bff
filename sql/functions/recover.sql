-- recover(limit): who: the recovery loop of every interlockd, about once a
-- second, and again at once while it returns limit rows.
--
-- Ends attempts whose lease is over (max_runtime too: no lease reaches beyond
-- it) and lets their jobs run again, at most limit of them.
--
-- Locks: works FOR NO KEY UPDATE SKIP LOCKED, then leases by id FOR UPDATE
-- SKIP LOCKED: it never waits, so several may run at once, and an owner that
-- is renewing or completing just now wins.  What was expired is judged again
-- in the next statement, with a clock read after the locks.  Effects that
-- these attempts are sending come first and are skipped likewise, with their
-- attempts.  Last the limit groups that got room, by name: only for these it
-- waits, holding works, for somebody who waits for nothing more.
--
-- One row's trouble never stops the others.  The pass runs in one
-- subtransaction (not one a row, and none while nothing is expired); if a row
-- raises an error, the pass is undone and done again up to that row, then
-- what is behind it: so many such rows make a pass twice as long, not many
-- times.  A row in trouble is noted in recovery_troubles, left alone for a
-- while, and shown by stats().
--
-- A lease that ended while the server was away is left alone for another 5 s
-- from when it was first seen running again (server_seen): its owner may have
-- finished meanwhile and be repeating its complete, which counts as long as
-- nobody recovered the attempt (finish).  So after an outage longer than a
-- lease work that was done is not done again; a dead owner's key, and its part
-- of a limit, is free those 5 s and a sweep later.
--
-- What becomes of a job is said by the policy that it was admitted under, as
-- it is stored: a kind that was deleted, or that no worker knows any more, is
-- recovered as any other one.
--
-- Answers: one row an attempt that ended here.
create or replace function interlock.recover(p_limit int)
returns table (tenant int, job_id uuid, attempt_id uuid, kind text,
    status text, runnable_kind text, ended_jobs uuid[], blocked_ms bigint,
    wake_kinds text[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
declare
    v_tenant   int[];
    v_attempt  uuid[];
    v_key      text[];
    v_from     int := 1;         -- the rows to do next: from here ...
    v_to       int;              -- ... to there
    v_bad      int[] := '{}';    -- those in trouble
    v_pass     interlock.recovered[] := '{}';
    v_groups   text[] := '{}';
    v_gten     int[] := '{}';
    v_wake     jsonb := '{}';
    r          record;
begin
    perform set_config('synchronous_commit', 'on', true);

    perform interlock.server_see();

    select array_agg(x.tenant), array_agg(x.attempt_id),
        array_agg(x.work_key)
    into v_tenant, v_attempt, v_key
    from interlock.recover_due(p_limit) x;

    v_to := cardinality(v_tenant);

    -- Each turn does some rows for good, or finds the next one in trouble.
    while v_from <= v_to loop
        if v_from = any (v_bad) then
            v_from := v_from + 1;
            continue;
        end if;

        select * into r from interlock.recover_pass(v_tenant[v_from:v_to],
            v_attempt[v_from:v_to], v_key[v_from:v_to]);

        if r.trouble is null then
            v_pass := v_pass || r.pass;
            v_groups := v_groups || r.groups;
            v_gten := v_gten || r.group_tenants;
            v_from := v_to + 1;
            v_to := cardinality(v_tenant);
        else
            v_bad := v_bad || (v_from + r.trouble - 1);
            if r.trouble > 1 then
                v_to := v_from + r.trouble - 2;
            end if;
        end if;
    end loop;

    -- A trouble is over with its attempt.
    delete from interlock.recovery_troubles t
    using unnest(v_pass) p
    where t.tenant = p.tenant and t.attempt_id = p.attempt_id;

    if cardinality(v_groups) > 0 then
        select coalesce(jsonb_object_agg(x.tenant, x.kinds), '{}')
        into v_wake
        from (select g.tenant, string_agg(distinct g.kind, ',') as kinds
              from interlock.groups_settle(v_gten, v_groups) g
              group by g.tenant) x;
    end if;

    return query
    select p.tenant, p.job_id, p.attempt_id, p.kind, p.status,
        p.runnable_kind, p.ended_jobs, p.blocked_ms,
        string_to_array(concat_ws(',', p.runnable_kind, case when p.first
            then v_wake ->> p.tenant::text end), ',')
    from (select x.*, row_number() over (
              partition by x.tenant order by x.ord) = 1 as first
          from unnest(v_pass) with ordinality as x (tenant, job_id,
              attempt_id, kind, status, runnable_kind, ended_jobs,
              blocked_ms, wake_kinds, ord)) p
    order by p.ord;
end
$$;

-- server_see(): notes when this server was first seen running, once for each
-- time that it came up (two that do so at once: the first one counts).
create or replace function interlock.server_see() returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    perform from interlock.server_seen x
    where x.one and x.start = pg_postmaster_start_time();
    if not found then
        insert into interlock.server_seen as x (start, seen_at)
        values (pg_postmaster_start_time(), clock_timestamp())
        on conflict (one) do update
        set start = excluded.start, seen_at = excluded.seen_at
        where x.start <> excluded.start;
    end if;
end
$$;

-- server_since(now): in the 5 s after this server was first seen running: when
-- that was.  Else null.
create or replace function interlock.server_since(p_now timestamptz)
returns timestamptz
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return (
        select x.seen_at from interlock.server_seen x
        where x.one and p_now >= x.seen_at
            and p_now < x.seen_at + interval '5 seconds');
end
$$;

-- recover_due(limit): the attempts whose lease is over, and which are not left
-- alone, for their trouble or because the server was away: those that have
-- waited longest, by id.
create or replace function interlock.recover_due(p_limit int)
returns table (tenant int, attempt_id uuid, work_key text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
declare
    v_now    timestamptz := clock_timestamp();
    v_since  timestamptz;    -- what ended before it waits
begin
    v_since := interlock.server_since(v_now);

    return query
    select y.tenant, y.attempt_id, y.work_key
    from (select l.tenant, l.attempt_id, l.work_key
          from interlock.leases l
          where l.expires_at <= v_now
              and l.expires_at >= coalesce(v_since, '-infinity')
              and not exists (
                  select from interlock.recovery_troubles t
                  where t.tenant = l.tenant
                      and t.attempt_id = l.attempt_id
                      and t.next_try > v_now)
          order by l.expires_at
          limit p_limit) y
    order by y.tenant, y.attempt_id;
end
$$;

-- recover_pass(tenants, attempts, keys): ends those of these attempts whose
-- work and lease it gets without waiting, and whose lease is over still.
-- Answers what became of them, the limit groups that got room; or, if a row
-- raised an error, which (trouble, counted from 1): then nothing was done, but
-- that row is noted.
create or replace function interlock.recover_pass(
    p_tenant int[], p_attempt uuid[], p_key text[],
    out pass interlock.recovered[], out groups text[],
    out group_tenants int[], out trouble int)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_row      interlock.recovered;
    v_i        int;
    l          interlock.leases;
    a          interlock.attempt_answer;
    v_busy     uuid[];
    v_state    text;
    v_message  text;
begin
    pass := '{}';
    groups := '{}';
    group_tenants := '{}';

    v_busy := interlock.effects_try(p_tenant, p_attempt);

    for v_i in
        select w.i
        from (
            select u.tenant, u.attempt, u.i::int as i
            from unnest(p_tenant, p_attempt, p_key) with ordinality
                as u (tenant, attempt, key, i)
            cross join lateral (
                select from interlock.works x
                where x.tenant = u.tenant and x.work_key = u.key
                for no key update skip locked) y
            where u.attempt <> all (v_busy)
            order by u.i) w
        cross join lateral (
            select from interlock.leases x
            where x.tenant = w.tenant and x.attempt_id = w.attempt
            for update skip locked) z
    loop
        select * into l from interlock.leases x
        where x.tenant = p_tenant[v_i] and x.attempt_id = p_attempt[v_i];

        if not found or l.expires_at > clock_timestamp() then
            continue;
        end if;

        a := interlock.attempt_end(l, 'lost', null, null, null, null, null,
            case when l.expires_at >= l.runtime_end
                then 'max_runtime reached'
                when l.cancel_requested then 'asked to end'
                else 'lease expired' end,
            true, null, null, null);

        v_row.tenant := l.tenant;
        v_row.job_id := l.job_id;
        v_row.attempt_id := l.attempt_id;
        v_row.kind := l.kind;
        v_row.status := a.status;
        v_row.runnable_kind := case when a.runnable then l.kind end;
        v_row.ended_jobs := a.ended_jobs;
        v_row.blocked_ms := a.blocked_ms;
        pass := pass || v_row;

        if a.groups <> '{}' then
            groups := groups || a.groups;
            group_tenants := group_tenants || array_fill(l.tenant,
                array[cardinality(a.groups)]);
        end if;
    end loop;

exception
    when deadlock_detected or serialization_failure or lock_not_available
    then
        raise;
    when others then
        if v_i is null then
            raise;
        end if;

        get stacked diagnostics v_state = returned_sqlstate,
            v_message = message_text;

        insert into interlock.recovery_troubles as t (tenant, attempt_id,
            sqlstate, message, next_try)
        values (p_tenant[v_i], p_attempt[v_i], v_state,
            left(v_message, 500),
            clock_timestamp() + interval '10 seconds')
        on conflict (tenant, attempt_id) do update
        set times = t.times + 1, sqlstate = excluded.sqlstate,
            message = excluded.message,
            next_try = clock_timestamp() + make_interval(
                secs => least(600, 10 * 2 ^ least(t.times, 8)));
        trouble := v_i;
end
$$;

revoke all on function interlock.server_see() from public;
revoke all on function interlock.server_since(timestamptz) from public;
revoke all on function interlock.recover_due(int) from public;
revoke all on function interlock.recover_pass(int[], uuid[], text[])
    from public;
revoke all on function interlock.recover(int) from public;
grant execute on function interlock.recover(int) to interlock_service;
