-- slot_lines.sql: slots that wait for room; helpers of schedule_scan and of
-- whoever else lets a slot go.  They stand in lines, oldest first, of which
-- only the front is tried: one for all of a schedule that its kind, or the
-- tenant, had no room for, and one for each work key that was refused for
-- itself.  Each line waits for its next try, and each schedule for that of its
-- first line, so that one that has no room, however long, costs a try now and
-- then, and keeps nobody else waiting.

-- lines_take(now, limit): takes from the lines whose time has come what is to
-- be submitted again, at most limit works, those schedules first that have
-- waited for their turn for longest.  What cannot fire any more is skipped,
-- what is done meanwhile has run.
-- Locks: the schedules (FOR NO KEY UPDATE SKIP LOCKED).
-- Answers: the works, what scan_seen says of the schedules, and whether there
-- are more whose time has come.
create or replace function interlock.lines_take(
    p_now timestamptz, p_limit int, out batch interlock.slot_try[],
    out seen jsonb, out more boolean)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    s  interlock.schedules;
    t  record;
    r  record;
begin
    batch := '{}';
    seen := '{}';
    more := false;

    for r in
        select x.tenant, x.name from interlock.schedules x
        where x.try_at <= p_now
        order by x.try_at
        limit 100
    loop
        more := cardinality(batch) >= p_limit;
        exit when more;

        perform from interlock.schedules x
        where x.tenant = r.tenant and x.name = r.name
        for no key update skip locked;
        continue when not found;

        select * into s from interlock.schedules x
        where x.tenant = r.tenant and x.name = r.name;
        continue when s.try_at is null or s.try_at > p_now;

        select * into t from interlock.schedule_lines(s, p_now,
            least(100, p_limit - cardinality(batch)));
        batch := batch || t.batch;
        seen := interlock.scan_seen(seen, s, t.skipped, false);
    end loop;
end
$$;

-- schedule_lines(s, now, limit): takes from the lines of s that are due, first
-- from that of all the schedule, then from those of work keys, one of each.
create or replace function interlock.schedule_lines(
    s interlock.schedules, p_now timestamptz, p_limit int,
    out batch interlock.slot_try[], out skipped bigint)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v  interlock.schedule_versions;
    l  interlock.slot_lines;
    x  interlock.slots;
begin
    v := interlock.schedule_version(s.tenant, s.name, s.version);
    batch := '{}';
    skipped := 0;

    for l in
        (select y.* from interlock.slot_lines y
         where y.tenant = s.tenant and y.schedule = s.name and y.lane = ''
             and y.try_at <= p_now)
        union all
        (select y.* from interlock.slot_lines y
         where y.tenant = s.tenant and y.schedule = s.name
             and y.try_at <= p_now and y.lane <> ''
         order by y.try_at limit p_limit)
    loop
        exit when cardinality(batch) >= p_limit;
        skipped := skipped + interlock.line_void(s, l.lane);

        for x in
            select y.* from interlock.slots y
            where y.tenant = s.tenant and y.schedule = s.name
                and y.lane = l.lane
            order by y.slot_at, y.subject
            limit least(l.step, p_limit - cardinality(batch))
        loop
            exit when s.deleted or x.version <> s.version;
            if not interlock.slot_done(x) then
                batch := batch || interlock.slot_try_of(x, v);
            end if;
        end loop;

        perform interlock.line_drop(s.tenant, s.name, l.lane);
    end loop;

    perform interlock.lines_next(s.tenant, s.name);
end
$$;

-- line_void(s, lane): skips what may not fire any more at the front of a line,
-- for its schedule was changed or deleted, up to 500 slots; how many it were.
-- What there is of an old definition is older than all of the present one.
create or replace function interlock.line_void(
    s interlock.schedules, p_lane text)
returns int
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_n  int := 0;
    x    interlock.slots;
begin
    for x in
        select y.* from interlock.slots y
        where y.tenant = s.tenant and y.schedule = s.name
            and y.lane = p_lane
        order by y.slot_at, y.subject
        limit 500
    loop
        exit when not s.deleted and x.version = s.version;
        perform interlock.slot_skip(x, case when s.deleted then 'deleted'
                                       else 'changed' end);
        v_n := v_n + 1;
    end loop;

    return v_n;
end
$$;

-- line_of(s, key): the line that a new slot of that work key has to join, for
-- older ones stand in it, or null.
create or replace function interlock.line_of(
    s interlock.schedules, p_key text)
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return (
        select l.lane from interlock.slot_lines l
        where l.tenant = s.tenant and l.schedule = s.name
            and l.lane in ('', p_key)
        order by l.lane limit 1);
end
$$;

-- lines_settle(batch, after): what becomes of the lines of a batch, where
-- after are its slots as they are now.
create or replace function interlock.lines_settle(
    p_batch interlock.slot_try[], p_after interlock.slots[])
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    r  record;
begin
    for r in
        with z as (
            select x.a, x.b, (x.a).lane is not distinct from (x.b).lane
                as stays
            from (select unnest(p_batch) as b, unnest(p_after) as a) x)
        select y.tenant, y.schedule, y.lane,
            (sum(y.tried))::int as tried, (sum(y.refused))::int as refused,
            (sum(y.late))::int as late, min(y.reason) as reason
        from (
            -- what stood in it, and what still does
            select (z.b).tenant, (z.b).schedule, (z.b).lane, 1 as tried,
                z.stays::int as refused, 0 as late,
                case when z.stays then (z.a).reason end as reason
            from z where (z.b).what = 'waiting' and (z.b).lane is not null
            union all
            -- what has come to it: joined it, or was refused just now
            select (z.b).tenant, (z.b).schedule, (z.a).lane, 0, 0,
                ((z.b).what <> 'line')::int, (z.a).reason
            from z where (z.a).lane is not null
                and ((z.b).what <> 'waiting' or not z.stays)) y
        group by 1, 2, 3
    loop
        perform interlock.line_settle(r.tenant, r.schedule, r.lane, r.tried,
            r.refused, r.late, r.reason);
    end loop;

    perform interlock.lines_next(y.tenant, y.schedule)
    from (select distinct b.tenant, b.schedule from unnest(p_batch) b
          where b.what <> 'approval') y;
end
$$;

-- line_settle(line, tried, refused, late, reason): when a line is tried next:
-- at once and with twice as many if all had room; soon and with as many as had
-- if some had; with one, and later and later, if none had.
create or replace function interlock.line_settle(
    p_tenant int, p_schedule text, p_lane text, p_tried int, p_refused int,
    p_late int, p_reason text)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_now  timestamptz := clock_timestamp();
    l      interlock.slot_lines;
begin
    select * into l from interlock.slot_lines x
    where x.tenant = p_tenant and x.schedule = p_schedule
        and x.lane = p_lane;

    if not found then
        insert into interlock.slot_lines (tenant, schedule, lane, reason,
            try_at, tries)
        values (p_tenant, p_schedule, p_lane, p_reason, case
            when p_late > 0 then v_now + interlock.line_pause(p_lane, 0)
            else v_now end, sign(p_late));
        return;
    elsif p_tried = 0 then
        return;
    end if;

    if p_refused = 0 then
        l.step := least(100, 2 * l.step);
        l.tries := 0;
        l.try_at := v_now;
    elsif p_refused < p_tried then
        l.step := p_tried - p_refused;
        l.tries := 0;
        l.try_at := v_now + interlock.line_pause(p_lane, 0);
    else
        l.step := 1;
        -- What only waits for another job of its key: that may end any time.
        l.try_at := v_now + interlock.line_pause(p_lane,
            case when p_reason in ('queue-full', 'work-active')
            then least(l.tries, 5) else l.tries end);
        l.tries := least(l.tries + 1, 1000);
    end if;

    update interlock.slot_lines x
    set step = l.step, tries = l.tries, try_at = l.try_at,
        reason = case when p_refused > 0 then p_reason else x.reason end
    where x.tenant = p_tenant and x.schedule = p_schedule
        and x.lane = p_lane;
    perform interlock.line_drop(p_tenant, p_schedule, p_lane);
end
$$;

-- line_pause(lane, tries): how long a line waits after a try in vain.  Room of
-- a kind may come at any time; a work key that is refused mostly stays so, but
-- for one that waits for another job's end (line_settle: 40 seconds at most).
create or replace function interlock.line_pause(p_lane text, p_tries int)
returns interval
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select make_interval(secs => least(case p_lane when '' then 15
        else 300 end, 2.0 ^ least(p_tries, 10)) * (0.75 + random() / 2))
$$;

-- line_drop(line): removes a line in which nobody stands any more.
create or replace function interlock.line_drop(
    p_tenant int, p_schedule text, p_lane text)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    delete from interlock.slot_lines l
    where l.tenant = p_tenant and l.schedule = p_schedule
        and l.lane = p_lane and not exists (
            select from interlock.slots x
            where x.tenant = l.tenant and x.schedule = l.schedule
                and x.lane = l.lane);
end
$$;

-- lines_next(tenant, schedule): when a schedule's lines are tried next.
create or replace function interlock.lines_next(
    p_tenant int, p_schedule text)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_at  timestamptz;
begin
    select l.try_at into v_at from interlock.slot_lines l
    where l.tenant = p_tenant and l.schedule = p_schedule
        and l.try_at is not null
    order by l.try_at limit 1;

    update interlock.schedules s set try_at = v_at
    where s.tenant = p_tenant and s.name = p_schedule
        and s.try_at is distinct from v_at;
end
$$;

-- lines_due(tenant/schedule): may its lines be tried again at once?
create or replace function interlock.lines_due(p_key text)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return exists (
        select from interlock.schedules s
        where s.tenant = split_part(p_key, '/', 1)::int
            and s.name = split_part(p_key, '/', 2)
            and s.try_at <= clock_timestamp());
end
$$;

-- slot_try_of(x, v): a slot that is there already, to be submitted (again).
create or replace function interlock.slot_try_of(
    x interlock.slots, v interlock.schedule_versions)
returns interlock.slot_try
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select row((x).tenant, (x).schedule, (x).slot_at, (x).subject, 'waiting',
        (x).version, (x).business_date, (x).work_key, (v).kind,
        interlock.slot_payload(interlock.slot_fill(v, (x).business_date,
            (x).slot_at, (v).payload), (x).subject), (v).priority,
        interlock.slot_jitter(v, (x).slot_at, (x).subject),
        (x).slot_at + make_interval(secs => (v).grace), (x).tries, false,
        (x).lane)::interlock.slot_try
$$;

-- slot_skip(x, reason): a slot fires no more; its gap closes.
create or replace function interlock.slot_skip(
    x interlock.slots, p_reason text)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    update interlock.slots y
    set state = 'skipped', reason = p_reason, lane = null, check_at = null,
        job_id = coalesce(x.job_id, y.job_id)
    where y.tenant = x.tenant and y.schedule = x.schedule
        and y.slot_at = x.slot_at and y.subject = x.subject;

    perform interlock.gap_closed(x, 'skipped: ' || p_reason);
end
$$;

-- slot_done(x): if the work of a slot is done, it has run, and its gap closes.
create or replace function interlock.slot_done(x interlock.slots)
returns boolean
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    w  record;
begin
    select * into w from interlock.slot_work(x);
    if w.done_at is null then
        return false;
    end if;

    perform interlock.slot_ran(x, (w.result).job_id, w.done_at);
    return true;
end
$$;

-- slot_ran(x, job, at): a slot has run; true if it was a gap that closes now.
create or replace function interlock.slot_ran(
    x interlock.slots, p_job uuid, p_at timestamptz)
returns boolean
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    update interlock.slots s
    set state = 'run', reason = null, job_id = p_job, done_at = p_at,
        lane = null, check_at = null
    where s.tenant = x.tenant and s.schedule = x.schedule
        and s.slot_at = x.slot_at and s.subject = x.subject;

    return interlock.gap_closed(x, 'done');
end
$$;

-- gap_closed(x, why): what is a gap of a slot is none any more; true if it was
-- one.
create or replace function interlock.gap_closed(
    x interlock.slots, p_why text)
returns boolean
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    update interlock.gaps g
    set state = 'closed', why = p_why, changed_at = clock_timestamp()
    where g.tenant = x.tenant and g.schedule = x.schedule
        and g.slot_at = x.slot_at and g.subject = x.subject
        and g.state in ('open', 'approved');
    return found;
end
$$;

revoke all on function interlock.lines_take(timestamptz, int) from public;
revoke all on function interlock.schedule_lines(interlock.schedules,
    timestamptz, int) from public;
revoke all on function interlock.line_void(interlock.schedules, text)
    from public;
revoke all on function interlock.line_of(interlock.schedules, text)
    from public;
revoke all on function interlock.lines_settle(interlock.slot_try[],
    interlock.slots[]) from public;
revoke all on function interlock.line_settle(int, text, text, int, int, int,
    text) from public;
revoke all on function interlock.line_pause(text, int) from public;
revoke all on function interlock.line_drop(int, text, text) from public;
revoke all on function interlock.lines_next(int, text) from public;
revoke all on function interlock.lines_due(text) from public;
revoke all on function interlock.slot_try_of(interlock.slots,
    interlock.schedule_versions) from public;
revoke all on function interlock.slot_skip(interlock.slots, text)
    from public;
revoke all on function interlock.slot_done(interlock.slots) from public;
revoke all on function interlock.slot_ran(interlock.slots, uuid,
    timestamptz) from public;
revoke all on function interlock.gap_closed(interlock.slots, text)
    from public;
