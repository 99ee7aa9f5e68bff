-- works_submit(…): submit() for work that nobody's request brought: its own
-- ids, no fingerprint of a request, an object of headers that says where it
-- comes from.  Arrays of equal length; idem may be null.  Locks and answers:
-- as submit with p_wait.
create or replace function interlock.works_submit(
    p_tenant int[], p_source text, p_idem text[], p_kind text[],
    p_work_key text[], p_payload text[], p_priority int[],
    p_run_after timestamptz[], p_requested_by text[], p_reason text[])
returns interlock.submit_answer[]
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    n      int := coalesce(cardinality(p_tenant), 0);
    v_id   uuid[];
    v_fp   bytea[];
    v_pay  bytea[];
begin
    if n = 0 then
        return '{}';
    end if;

    select array_agg(interlock.new_id() order by u.n),
        array_agg(sha256(convert_to(coalesce(u.idem, u.key), 'UTF8'))
                  order by u.n),
        array_agg(convert_to(u.payload, 'UTF8') order by u.n)
    into v_id, v_fp, v_pay
    from unnest(p_idem, p_work_key, p_payload) with ordinality
        u (idem, key, payload, n);

    return (
        select array_agg(row(a.*)::interlock.submit_answer order by a.ord)
        from interlock.submit(p_tenant, v_id,
            array_fill(p_source, array[n]), p_idem, v_fp,
            array_fill('first'::text, array[n]), p_kind, p_work_key,
            array_fill(null::bigint, array[n]), v_pay,
            array_fill('application/json'::text, array[n]),
            array_fill(null::text, array[n]),
            array_fill(null::text, array[n]), p_priority, p_run_after,
            array_fill(null::timestamptz, array[n]),
            array_fill(false, array[n]), p_requested_by, p_reason, true) a);
end
$$;

-- refused_for_all(a): was a submission refused for what is no matter of its
-- work: that its kind or the tenant has no room, or is not there, or paused?
create or replace function interlock.refused_for_all(
    a interlock.submit_answer)
returns boolean
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce((a).reason in ('kind_full', 'tenant_full'), false)
        or coalesce((a).problem in ('kind-unknown', 'source-paused'), false)
$$;

-- slot_answer(a, x): what slot x becomes of the answer to its submission.  A
-- job that was there already, or has succeeded, is its work only if slot_owns
-- says so; if not, the slot is skipped.  What there was no room for waits in a
-- line: of its work key if that was refused, else of all its schedule.
create or replace function interlock.slot_answer(
    a interlock.submit_answer, x interlock.slots, out state text,
    out reason text, out job_id uuid, out lane text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    job_id := coalesce(a.job_id, a.active_job_id);
    reason := a.reason;

    if a.decision in ('accepted', 'buffered', 'replaced', 'parked')
        and a.outcome = 'ok'
    then
        state := 'admitted';
    elsif a.decision in ('skipped', 'completed') then
        if interlock.slot_owns(x, job_id) then
            state := 'admitted';
        else
            state := 'skipped';
            reason := coalesce(reason, a.decision);
        end if;
    else
        state := 'waiting';
        reason := coalesce(a.problem, a.outcome);
        job_id := null;
        lane := case when interlock.refused_for_all(a) then '' else x.work_key end;
    end if;
end
$$;

-- slots_submit(batch): stores the slots of a batch and submits their work, but
-- for those that wait for approval or join a line; helper of schedule_scan,
-- which holds their schedules' rows.
-- Answers: a row a schedule; see there.
create or replace function interlock.slots_submit(
    p_batch interlock.slot_try[])
returns table (tenant int, schedule text, slots int, waiting int,
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
    v_ans    interlock.submit_answer[];
    v_all    interlock.slots[] := '{}';
    v_new    interlock.slots[] := '{}';
    v_told   interlock.slot_told[] := '{}';
    v_first  interlock.slots[] := '{}';
    v_i      int := 0;
    b        interlock.slot_try;
    x        interlock.slots;
begin
    v_ans := interlock.batch_submit(p_batch);

    foreach b in array p_batch loop
        if b.what in ('due', 'waiting') then
            v_i := v_i + 1;
            x := interlock.slot_after(b, v_ans[v_i]);
            if v_ans[v_i].wake_kinds <> '{}'
                or v_ans[v_i].ended_jobs <> '{}'
            then
                v_told := v_told || row(b.tenant, b.schedule,
                    v_ans[v_i].wake_kinds,
                    v_ans[v_i].ended_jobs)::interlock.slot_told;
            end if;
        else
            x := interlock.slot_after(b, null);
        end if;

        v_all := v_all || x;
        if b.what = 'waiting' then
            perform interlock.slot_moved(x);
        else
            v_new := v_new || x;
            if b.first then
                v_first := v_first || x;
            end if;
        end if;
    end loop;

    insert into interlock.slots select * from unnest(v_new);
    perform interlock.lines_settle(p_batch, v_all);

    -- Skipped in a row: since the last slot of the batch that was not.
    update interlock.schedules s
    set skips = case when y.ran is null then s.skips else 0 end + y.n
    from (select u.tenant, u.schedule, u.ran, (
              select count(*) from unnest(v_first) f
              where f.tenant = u.tenant and f.schedule = u.schedule
                  and f.slot_at > coalesce(u.ran, '-infinity')) as n
          from (select z.tenant, z.schedule, max(z.slot_at) filter (
                    where z.state <> 'skipped') as ran
                from unnest(v_new) z group by 1, 2) u) y
    where s.tenant = y.tenant and s.name = y.schedule
        and (y.n > 0 or (s.skips > 0 and y.ran is not null));

    return query
    select u.tenant, u.schedule, u.slots, u.waiting, coalesce((
            select array_agg(distinct k) from unnest(v_told) t
            cross join unnest(t.wake_kinds) k
            where t.tenant = u.tenant and t.schedule = u.schedule), '{}'),
        coalesce((
            select array_agg(k) from unnest(v_told) t
            cross join unnest(t.ended_jobs) k
            where t.tenant = u.tenant and t.schedule = u.schedule), '{}')
    from (select z.tenant, z.schedule, count(*)::int as slots,
              (count(*) filter (where z.state = 'waiting'))::int as waiting
          from unnest(v_all) z group by 1, 2) u;
end
$$;

-- batch_submit(batch): submits those that are to be.
create or replace function interlock.batch_submit(
    p_batch interlock.slot_try[])
returns interlock.submit_answer[]
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    return (
        select interlock.works_submit(array_agg(b.tenant), 'schedule',
            array_agg(interlock.slot_ref(b.schedule, b.slot_at, b.subject)),
            array_agg(b.kind), array_agg(b.work_key), array_agg(b.payload),
            array_agg(b.priority), array_agg(b.run_after),
            array_agg('schedule ' || b.schedule),
            array_agg(null::text))
        from unnest(p_batch) b
        where b.what in ('due', 'waiting'));
end
$$;

-- slot_after(b, a): the row of a slot after the answer a to its submission
-- (null: it was not submitted).
create or replace function interlock.slot_after(
    b interlock.slot_try, a interlock.submit_answer)
returns interlock.slots
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_now  timestamptz := clock_timestamp();
    x      interlock.slots;
begin
    x.tenant := b.tenant;
    x.schedule := b.schedule;
    x.slot_at := b.slot_at;
    x.subject := b.subject;
    x.version := b.version;
    x.business_date := b.business_date;
    x.work_key := b.work_key;
    x.tries := b.tries;
    x.created_at := v_now;

    if b.what = 'approval' then
        x.state := 'waiting';
        x.reason := 'approval';
        x.check_at := v_now;
        return x;
    elsif b.what = 'line' then
        x.state := 'waiting';
        x.lane := b.lane;
        x.reason := coalesce((
            select l.reason from interlock.slot_lines l
            where l.tenant = b.tenant and l.schedule = b.schedule
                and l.lane = b.lane), 'queue-full');
        x.check_at := greatest(v_now, b.due_by);
        return x;
    end if;

    x.tries := b.tries + 1;
    select y.state, y.reason, y.job_id, y.lane
    into x.state, x.reason, x.job_id, x.lane
    from interlock.slot_answer(a, x) y;

    if x.state = 'waiting' then
        x.check_at := greatest(v_now, b.due_by);
    elsif x.state = 'admitted' then
        x.check_at := v_now + make_interval(secs => case a.decision
            when 'completed' then 0 else 15 end);
    end if;

    return x;
end
$$;

-- slot_moved(x): keeps what slot_after made of a slot that waited.
create or replace function interlock.slot_moved(x interlock.slots)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    if x.state = 'skipped' then
        perform interlock.slot_skip(x, x.reason);
        return;
    end if;

    update interlock.slots y
    set state = x.state, reason = x.reason, job_id = x.job_id,
        tries = x.tries, lane = x.lane, check_at = x.check_at
    where y.tenant = x.tenant and y.schedule = x.schedule
        and y.slot_at = x.slot_at and y.subject = x.subject;
end
$$;

revoke all on function interlock.works_submit(int[], text, text[], text[],
    text[], text[], int[], timestamptz[], text[], text[]) from public;
revoke all on function interlock.refused_for_all(interlock.submit_answer)
    from public;
revoke all on function interlock.slot_answer(interlock.submit_answer,
    interlock.slots) from public;
revoke all on function interlock.slots_submit(interlock.slot_try[])
    from public;
revoke all on function interlock.batch_submit(interlock.slot_try[])
    from public;
revoke all on function interlock.slot_after(interlock.slot_try,
    interlock.submit_answer) from public;
revoke all on function interlock.slot_moved(interlock.slots) from public;
