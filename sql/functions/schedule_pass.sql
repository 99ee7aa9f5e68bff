-- schedule_pass(s, v, until, reason): accounts for all slots of s after
-- scanned_to and not after until as skipped, and for what is left of the one
-- under way.  A few get their rows in slots; more than 100, and those of a
-- pause, one row in schedule_skips for all, which grows if the next ones
-- follow.  Helper of those who hold the schedule's row, and store s.
-- Answers: s as it is then (next_at too), and how many slots were skipped.
create or replace function interlock.schedule_pass(
    inout s interlock.schedules, v interlock.schedule_versions,
    p_until timestamptz, p_reason text, out passed bigint)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_after  timestamptz;
    v_until  timestamptz := least(p_until,
                                v.end_at - interval '1 microsecond');
    v_first  timestamptz;
    v_last   timestamptz;
    v_ctid   tid;
begin
    passed := 0;

    if s.slot_at is not null then
        insert into interlock.schedule_skips (tenant, schedule, from_at,
            to_at, version, slots, subjects, reason)
        values (s.tenant, s.name, s.slot_at, s.slot_at, s.version, 1,
            v.subjects - s.slot_n, p_reason);
        s.scanned_to := s.slot_at;
        s.slot_at := null;
        s.slot_n := 0;
        passed := 1;
    end if;

    v_after := greatest(s.scanned_to,
        v.start_at - interval '1 microsecond');
    v_first := interlock.schedule_next(v, v_after);
    s.next_at := v_first;
    if v_first is null or v_first > v_until then
        return;
    end if;

    v_last := (interlock.cron_last(v.masks, v.zone, v_after, v_until, v.gap,
        v.fold, 1))[1];
    passed := interlock.cron_count(v.masks, v.zone, v_after, v_until, v.gap,
        v.fold);

    if passed * v.subjects <= 100 and p_reason <> 'paused' then
        insert into interlock.slots (tenant, schedule, slot_at, subject,
            version, business_date, work_key, state, reason)
        select s.tenant, s.name, a.at, x.subject, s.version,
            interlock.slot_date(v, a.at), interlock.slot_key(
                interlock.slot_fill(v, interlock.slot_date(v, a.at), a.at,
                    v.work_key), x.subject), 'skipped', p_reason
        from unnest(interlock.cron_last(v.masks, v.zone, v_after, v_until,
            v.gap, v.fold, 100)) a (at)
        cross join interlock.schedule_subjects x
        where x.tenant = s.tenant and x.name = s.name and x.list = v.list
        on conflict do nothing;
    else
        select x.ctid into v_ctid from interlock.schedule_skips x
        where x.tenant = s.tenant and x.schedule = s.name
            and x.to_at = s.scanned_to and x.version = s.version
            and x.reason = p_reason and x.subjects = v.subjects;
        if found then
            update interlock.schedule_skips x
            set to_at = v_last, slots = x.slots + passed
            where x.ctid = v_ctid;
        else
            insert into interlock.schedule_skips (tenant, schedule, from_at,
                to_at, version, slots, subjects, reason)
            values (s.tenant, s.name, v_first, v_last, s.version, passed,
                v.subjects, p_reason);
        end if;
    end if;

    s.skips := least(s.skips + passed, 2000000000);
    s.scanned_to := v_last;
    s.next_at := interlock.schedule_next(v, v_last);
end
$$;

-- schedule_store(s): keeps what schedule_pass and schedule_scan made of it.
create or replace function interlock.schedule_store(s interlock.schedules)
returns void
language sql
set search_path = pg_catalog, interlock, pg_temp
as $$
    update interlock.schedules x
    set version = (s).version, deleted = (s).deleted, paused = (s).paused,
        pause_note = (s).pause_note, since = (s).since,
        scanned_to = (s).scanned_to, next_at = (s).next_at,
        slot_at = (s).slot_at, slot_n = (s).slot_n,
        skips = (s).skips, trouble = (s).trouble,
        hold_until = (s).hold_until, updated_at = (s).updated_at
    where x.tenant = (s).tenant and x.name = (s).name
$$;

revoke all on function interlock.schedule_pass(interlock.schedules,
    interlock.schedule_versions, timestamptz, text) from public;
revoke all on function interlock.schedule_store(interlock.schedules)
    from public;
