-- gap_scan(limit): who: the sweep of every interlockd, each second, and again
-- at once while a row says more.
-- Compares expected slots with completed work: what is done gets state run
-- (and its gap closes); what is not done after its grace time, or waits for
-- approval, becomes a gap.  A gap that was approved and came to nothing within
-- another grace time is open again.  Looks at most at limit slots, each at
-- its check_at: soon and then each 30 seconds until its grace is over, and each
-- 20 seconds (later each minute) while it is a gap.
-- Locks: rows of schedules (FOR NO KEY UPDATE SKIP LOCKED).
-- Answers: a row a schedule that was looked at: how many gaps opened and
-- closed, how many slots were done, whether there are more to look at.
-- What was admitted, but gave way to another slot's job, is skipped.
create or replace function interlock.gap_scan(p_limit int)
returns table (tenant int, schedule text, opened int, closed int, done int,
    more boolean)
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
    v_due   interlock.slots[];
    v_mine  boolean;
    v_did   text;
    x       interlock.slots;
begin
    perform set_config('synchronous_commit', 'on', true);

    select array_agg(y order by y.tenant, y.schedule) into v_due
    from (select s.* from interlock.slots s
          where s.check_at <= v_now
          order by s.check_at
          limit greatest(p_limit, 1)) y;

    opened := 0;
    closed := 0;
    done := 0;
    more := false;

    foreach x in array coalesce(v_due, '{}') loop
        if tenant is distinct from x.tenant
            or schedule is distinct from x.schedule
        then
            if v_mine then
                return next;
            end if;
            tenant := x.tenant;
            schedule := x.schedule;
            opened := 0;
            closed := 0;
            done := 0;
            more := cardinality(v_due) >= greatest(p_limit, 1);
            perform from interlock.schedules s
            where s.tenant = x.tenant and s.name = x.schedule
            for no key update skip locked;
            v_mine := found;
        end if;
        continue when not v_mine;

        v_did := interlock.slot_look(x.tenant, x.schedule, x.slot_at,
                                     x.subject);
        opened := opened + (v_did = 'opened')::int;
        closed := closed + (v_did = 'closed')::int;
        done := done + (v_did in ('done', 'closed'))::int;
    end loop;

    if v_mine then
        return next;
    end if;
end
$$;

-- slot_look(…): looks at one slot; the caller holds its schedule.  Answers
-- what it did: done, closed (done, and its gap closed), opened, or nothing.
create or replace function interlock.slot_look(
    p_tenant int, p_schedule text, p_at timestamptz, p_subject text)
returns text
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_now   timestamptz := clock_timestamp();
    v_due   timestamptz;
    v_next  interval;
    v_did   text := 'nothing';
    x       interlock.slots;
    g       interlock.gaps;
    w       record;
begin
    select * into x from interlock.slots s
    where s.tenant = p_tenant and s.schedule = p_schedule
        and s.slot_at = p_at and s.subject = p_subject;
    if not found or x.check_at is null or x.check_at > v_now then
        return v_did;
    end if;

    if x.state = 'waiting' and interlock.slot_void(x) is not null then
        perform interlock.slot_skip(x, interlock.slot_void(x));
        return v_did;
    end if;

    select * into g from interlock.gaps y
    where y.tenant = p_tenant and y.schedule = p_schedule
        and y.slot_at = p_at and y.subject = p_subject;

    select * into w from interlock.slot_work(x);

    if w.done_at is not null then
        return case when interlock.slot_ran(x, (w.result).job_id, w.done_at)
            then 'closed' else 'done' end;
    elsif w.taken then
        perform interlock.slot_skip(x, 'superseded');
        return v_did;
    end if;

    select p_at + make_interval(secs => v.grace) into v_due
    from interlock.schedule_versions v
    where v.tenant = p_tenant and v.name = p_schedule
        and v.version = x.version;
    if g.state = 'approved' then
        v_due := g.changed_at + (v_due - p_at);
    elsif x.reason = 'approval' then
        v_due := least(v_due, v_now);
    end if;

    if v_due <= v_now then
        if interlock.gap_open(x, g, v_due, w.why, v_now) then
            v_did := 'opened';
        end if;
        v_next := case when v_now - v_due > interval '10 minutes'
            then interval '1 minute' else interval '20 seconds' end;
    else
        -- Its work may be done any time, and is to be seen as done soon.
        v_next := least(v_due - v_now, interval '30 seconds',
                        greatest(interval '15 seconds', v_now - p_at));
    end if;

    update interlock.slots s set check_at = v_now + v_next
    where s.tenant = p_tenant and s.schedule = p_schedule
        and s.slot_at = p_at and s.subject = p_subject;
    return v_did;
end
$$;

-- slot_void(x): why a slot that waits may not fire any more: its schedule was
-- changed, or deleted; or null.
create or replace function interlock.slot_void(x interlock.slots)
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return (
        select case when s.deleted then 'deleted'
            when s.version <> x.version then 'changed' end
        from interlock.schedules s
        where s.tenant = x.tenant and s.name = x.schedule);
end
$$;

-- gap_open(x, g, since, why, now): a slot is a gap now, where g is what there
-- is of it so far; true if it was none, or not an open one.
create or replace function interlock.gap_open(
    x interlock.slots, g interlock.gaps, p_since timestamptz, p_why text,
    p_now timestamptz)
returns boolean
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    if g.id is null then
        insert into interlock.gaps (tenant, id, schedule, slot_at, subject,
            business_date, work_key, since, why, state, opened_at,
            changed_at)
        values (x.tenant, interlock.new_id(), x.schedule, x.slot_at,
            x.subject, x.business_date, x.work_key, p_since, p_why, 'open',
            p_now, p_now);
        return true;
    end if;

    if g.state = 'approved' or (g.state = 'open' and g.why <> p_why) then
        update interlock.gaps y
        set state = 'open', why = p_why, changed_at = p_now,
            since = case when g.state = 'open' then g.since
                    else p_since end,
            opened_at = case when g.state = 'open' then g.opened_at
                        else p_now end
        where y.tenant = g.tenant and y.id = g.id;
    end if;
    return g.state = 'approved';
end
$$;

revoke all on function interlock.slot_look(int, text, timestamptz, text)
    from public;
revoke all on function interlock.slot_void(interlock.slots) from public;
revoke all on function interlock.gap_open(interlock.slots, interlock.gaps,
    timestamptz, text, timestamptz) from public;
revoke all on function interlock.gap_scan(int) from public;
grant execute on function interlock.gap_scan(int) to interlock_service;
