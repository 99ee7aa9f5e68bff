-- schedule_scan(limit): who: the sweep of every interlockd, each second, and
-- again at once while a row says more.
-- Lets slots fire whose time has come, in the order of their time: creates
-- their rows and submits their work (source schedule, idempotency key
-- slot:SCHEDULE:TIME:SUBJECT) in one transaction, and submits again what was
-- refused for want of room (slot_lines.sql); at most limit works in all.  A
-- slot of many subjects goes on where the last call stopped.  While others
-- wait in line, what comes due joins behind them.
--
-- A slot is on time for a minute; what is behind that was missed, because
-- nobody scanned.  By the schedule's catch_up, of what was missed runs
--   latest  the newest, if no slot is on time just now
--   all     the newest catch_up_max
--   skip    nothing
-- and what does not is skipped (reason catch_up), in bounded work however
-- many there are.  A slot older than approve_after waits for approval.
--
-- Locks: rows of schedules (FOR NO KEY UPDATE SKIP LOCKED), then as submit
-- with p_wait.
-- Answers: a row a schedule that was worked on: slots, how many works were
-- stored or submitted again, how many of these wait now; how many slots were
-- skipped; whether there is more to do at once; the kinds that may start, and
-- the jobs that ended; the schedule's next slot.
create or replace function interlock.schedule_scan(p_limit int)
returns table (tenant int, schedule text, slots int, waiting int,
    skipped bigint, more boolean, wake_kinds text[], ended_jobs uuid[],
    next_at timestamptz)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_now    timestamptz := clock_timestamp();
    v_limit  int := greatest(p_limit, 1);
    v_batch  interlock.slot_try[];
    v_seen   jsonb;             -- tenant/schedule: what is answered
    v_more   boolean;
    s        interlock.schedules;
    t        record;
    r        record;
begin
    perform set_config('synchronous_commit', 'on', true);

    -- Neither those that wait nor the new ones keep the others out.
    select x.batch, x.seen, x.more into v_batch, v_seen, v_more
    from interlock.lines_take(v_now, (v_limit + 1) / 2) x;

    for r in
        select x.tenant, x.name from interlock.schedules x
        where x.next_at <= v_now
            and coalesce(x.hold_until, '-infinity') <= v_now
        -- A slot of many subjects that is under way lets others pass.
        order by x.slot_at is not null, x.next_at
        limit 100
    loop
        exit when cardinality(v_batch) >= v_limit;

        perform from interlock.schedules x
        where x.tenant = r.tenant and x.name = r.name
        for no key update skip locked;
        continue when not found;

        select * into s from interlock.schedules x
        where x.tenant = r.tenant and x.name = r.name;
        continue when s.next_at is null or s.next_at > v_now;

        select * into t from interlock.schedule_tried(s,
            v_limit - cardinality(v_batch));
        continue when not t.well;
        s := t.s;

        v_batch := v_batch || t.batch;
        v_seen := interlock.scan_seen(v_seen, s, t.skipped, t.more);
    end loop;

    if v_batch = '{}' and v_seen = '{}' then
        return;
    end if;

    return query
    with x as materialized (
        select y.*, y.tenant || '/' || y.schedule as key
        from interlock.slots_submit(v_batch) y)
    select coalesce(x.tenant, split_part(e.key, '/', 1)::int),
        coalesce(x.schedule, split_part(e.key, '/', 2)),
        coalesce(x.slots, 0), coalesce(x.waiting, 0),
        coalesce((e.value ->> 'skipped')::bigint, 0), v_more
            or coalesce((e.value ->> 'more')::boolean, false)
            or interlock.lines_due(coalesce(x.key, e.key)),
        coalesce(x.wake_kinds, '{}'), coalesce(x.ended_jobs, '{}'),
        (e.value ->> 'next_at')::timestamptz
    from x full join jsonb_each(v_seen) e on e.key = x.key
    order by 1, 2;
end
$$;

-- scan_seen(seen, s, skipped, more): adds what is to be said of a schedule.
create or replace function interlock.scan_seen(
    p_seen jsonb, s interlock.schedules, p_skipped bigint, p_more boolean)
returns jsonb
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select p_seen || jsonb_build_object((s).tenant || '/' || (s).name,
        jsonb_build_object('skipped', p_skipped + coalesce((p_seen
                -> ((s).tenant || '/' || (s).name) ->> 'skipped')::bigint, 0),
            'more', p_more, 'next_at', (s).next_at))
$$;

-- schedule_tried(s, left): schedule_take, and s stored; or, if that raises an
-- error (a zone that the server's data has no more), that error stored, and
-- the schedule left alone for a minute, so that it does not stop the others.
-- So it costs a subtransaction a schedule that is due.
create or replace function interlock.schedule_tried(
    inout s interlock.schedules, p_left int,
    out batch interlock.slot_try[], out skipped bigint, out more boolean,
    out well boolean)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    t  record;
begin
    begin
        select * into t from interlock.schedule_take(s, p_left);
        s := t.s;
        batch := t.batch;
        skipped := t.skipped;
        more := t.more;
        s.trouble := null;
        s.hold_until := null;
        well := true;
    exception when others then
        -- What another try would mend is the caller's.
        if sqlstate like '40%' or sqlstate in ('55P03', '57014') then
            raise;
        end if;
        s.trouble := sqlstate || ' ' || sqlerrm;
        s.hold_until := clock_timestamp() + interval '1 minute';
        well := false;
    end;

    perform interlock.schedule_store(s);
end
$$;

-- schedule_take(s, left): takes from a schedule what is due, at most left
-- works: in batch, to be stored and submitted; s is what is to be stored of
-- the schedule.  Helper of schedule_scan, which holds its row.
create or replace function interlock.schedule_take(
    inout s interlock.schedules, p_left int,
    out batch interlock.slot_try[], out skipped bigint, out more boolean)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v         interlock.schedule_versions;
    v_now     timestamptz := clock_timestamp();
    v_judged  boolean := false;
    c         record;
begin
    v := interlock.schedule_version(s.tenant, s.name, s.version);
    batch := '{}';
    skipped := 0;
    more := false;

    if s.paused then
        select * into c
        from interlock.schedule_pass(s, v, v_now, 'paused');
        s := c.s;
        skipped := c.passed;
        return;
    end if;

    loop
        if s.slot_at is null and not v_judged then
            select * into c
            from interlock.schedule_catch_up(s, v, v_now);
            s := c.s;
            skipped := skipped + c.passed;
            v_judged := true;
        end if;

        exit when s.slot_at is null
            and (s.next_at is null or s.next_at > v_now);
        more := cardinality(batch) >= p_left;
        exit when more;

        if s.slot_at is null then
            s.slot_at := s.next_at;
            s.slot_n := 0;
        end if;

        select * into c from interlock.slot_chunk(s, v, v_now,
            p_left - cardinality(batch));
        batch := batch || c.batch;
        s.slot_n := s.slot_n + c.taken;

        if s.slot_n >= v.subjects then
            s.scanned_to := s.slot_at;
            s.next_at := interlock.schedule_next(v, s.slot_at);
            s.slot_at := null;
            s.slot_n := 0;
        end if;
    end loop;
end
$$;

-- schedule_catch_up(s, v, now): skips what was missed and is not to run.
create or replace function interlock.schedule_catch_up(
    inout s interlock.schedules, v interlock.schedule_versions,
    p_now timestamptz, out passed bigint)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_late   timestamptz := p_now - interval '1 minute';
    v_until  timestamptz := v_late;
    v_keep   timestamptz;
    c        record;
begin
    passed := 0;
    if s.next_at > v_late then
        return;
    end if;

    if v.catch_up = 'all' or (v.catch_up = 'latest'
        and coalesce(interlock.schedule_next(v, v_late) > p_now, true))
    then
        v_keep := (interlock.cron_last(v.masks, v.zone, greatest(
            s.scanned_to, v.start_at - interval '1 microsecond'),
            least(v_late, v.end_at - interval '1 microsecond'), v.gap,
            v.fold, case when v.catch_up = 'all' then v.catch_up_max
                    else 1 end))[1];
        v_until := v_keep - interval '1 microsecond';
    end if;

    select * into c
    from interlock.schedule_pass(s, v, v_until, 'catch_up');
    s := c.s;
    passed := c.passed;
end
$$;

-- slot_chunk(s, v, now, limit): the next subjects of the slot under way; those
-- that have a row already (it was there under a former clock) are done.  Those
-- of whose work older ones wait join their line.
create or replace function interlock.slot_chunk(
    s interlock.schedules, v interlock.schedule_versions, p_now timestamptz,
    p_limit int, out batch interlock.slot_try[], out taken int)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_date     date := interlock.slot_date(v, s.slot_at);
    v_old      boolean := coalesce(p_now - s.slot_at > make_interval(
                   secs => v.approve_after), false);
    v_key      text;
    v_payload  text;
begin
    v_key := interlock.slot_fill(v, v_date, s.slot_at, v.work_key);
    v_payload := interlock.slot_fill(v, v_date, s.slot_at, v.payload);

    select count(*), coalesce(array_agg(row(s.tenant, s.name, s.slot_at,
            x.subject, case when v_old then 'approval'
                when x.lane is not null then 'line' else 'due' end,
            s.version, v_date, x.work_key, v.kind,
            interlock.slot_payload(v_payload, x.subject), v.priority,
            interlock.slot_jitter(v, s.slot_at, x.subject),
            s.slot_at + make_interval(secs => v.grace), 0, x.n = 1,
            x.lane)::interlock.slot_try order by x.n)
        filter (where not x.there), '{}')
    into taken, batch
    from (select y.n, y.subject, k.work_key, exists (
              select from interlock.slots z
              where z.tenant = s.tenant and z.schedule = s.name
                  and z.slot_at = s.slot_at and z.subject = y.subject)
              as there, case when s.try_at is not null
                  then interlock.line_of(s, k.work_key) end as lane
          from interlock.schedule_subjects y
          cross join lateral (
              select interlock.slot_key(v_key, y.subject) as work_key) k
          where y.tenant = v.tenant and y.name = v.name and y.list = v.list
              and y.n > s.slot_n
          order by y.n
          limit p_limit) x;
end
$$;

-- slot_jitter(v, at, subject): when the subject's work may start: up to
-- jitter seconds after the slot, always the same for one subject.
create or replace function interlock.slot_jitter(
    v interlock.schedule_versions, p_at timestamptz, p_subject text)
returns timestamptz
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case when (v).jitter > 0 then p_at + make_interval(secs => (
        'x' || substr(md5((v).name || '/' || p_subject), 1, 7))::bit(28)::int
        % ((v).jitter + 1)) end
$$;

revoke all on function interlock.schedule_tried(interlock.schedules, int)
    from public;
revoke all on function interlock.schedule_take(interlock.schedules, int)
    from public;
revoke all on function interlock.schedule_catch_up(interlock.schedules,
    interlock.schedule_versions, timestamptz) from public;
revoke all on function interlock.slot_chunk(interlock.schedules,
    interlock.schedule_versions, timestamptz, int) from public;
revoke all on function interlock.slot_jitter(interlock.schedule_versions,
    timestamptz, text) from public;
revoke all on function interlock.scan_seen(jsonb, interlock.schedules,
    bigint, boolean) from public;
revoke all on function interlock.schedule_scan(int) from public;
grant execute on function interlock.schedule_scan(int) to interlock_service;
