-- schedule_slots(…): who: interlockd, GET /v1/schedules/{name}/slots.
-- The slots of a schedule whose business dates are not before from and not
-- after until (null: no bound), the newest first, each with how its work
-- stands just now.  Locks: none.
-- Answers at most limit rows, problem null, each with the cursor from which
-- the next page goes on; a cursor that is none gives no row.  doc {slot_at,
-- until, slots, business_date, subject, work_key, state (waiting, admitted,
-- skipped, run), reason, job_id, job_status, last_success (time of the newest
-- result of its key, whenever), processed, failed (as that result counts
-- them), delay_seconds (from its time to the start of its job), generated,
-- delivered (null: its kind has no delivery_effects), tries, try_at (when the
-- line in which it stands is tried next), gap_id,
-- gap_state}.  slots above 1, or no work_key: one row for all that were
-- skipped from slot_at to until; subjects says how many each had.
-- Refuses: not-found (a deleted schedule still shows its slots).
create or replace function interlock.schedule_slots(
    p_tenant int, p_name text, p_from date, p_to date, p_limit int,
    p_cursor text)
returns table (problem text, detail text, doc text, cursor text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_limit    int := greatest(0, least(p_limit, 1000));
    v_from     date := coalesce(p_from, '-infinity');
    v_to       date := coalesce(p_to, 'infinity');
    v_at       timestamptz := 'infinity';
    v_subject  text := '';
    v          interlock.schedule_versions;
begin
    v := interlock.schedule_newest(p_tenant, p_name, true);
    if v.name is null then
        return query select 'not-found', 'no such schedule', null::text,
            null::text;
        return;
    end if;

    if p_cursor is not null then
        if p_cursor !~ '^\d{1,17}\..{0,200}$' then
            return;
        end if;
        v_at := interlock.time_of(split_part(p_cursor, '.', 1));
        v_subject := substr(p_cursor, strpos(p_cursor, '.') + 1);
    end if;

    return query
    select null::text, null::text, case when y.slots = 0
        then interlock.slot_doc(p_tenant, p_name, y.at, y.subject)
        else interlock.skip_doc(v, y.from_at, y.at, y.slots, y.subjects,
                                y.reason) end,
        interlock.time_text(y.at) || '.' || y.subject
    from (
        (select s.slot_at as at, s.subject, 0::bigint as slots,
             null::timestamptz as from_at, 0 as subjects,
             null::text as reason
         from interlock.slots s
         where s.tenant = p_tenant and s.schedule = p_name
             and s.business_date >= v_from and s.business_date <= v_to
             and s.slot_at <= v_at
             and (s.slot_at < v_at or s.subject > v_subject)
         order by s.slot_at desc, s.subject
         limit v_limit)
        union all
        (select k.to_at, '~' || k.id, k.slots, k.from_at, k.subjects,
             k.reason
         from interlock.schedule_skips k
         where k.tenant = p_tenant and k.schedule = p_name
             and k.to_at <= v_at
             and (k.to_at < v_at or '~' || k.id > v_subject)
             and interlock.slot_date(v, k.to_at) >= v_from
             and interlock.slot_date(v, k.from_at) <= v_to
         order by k.to_at desc, '~' || k.id
         limit v_limit)) y
    order by y.at desc, y.subject
    limit v_limit;
end
$$;

-- slot_doc(…): a slot as schedule_slots shows it.
create or replace function interlock.slot_doc(
    p_tenant int, p_name text, p_at timestamptz, p_subject text)
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    x  interlock.slots;
    g  interlock.gaps;
    n  interlock.results;
    w  record;
begin
    select * into x from interlock.slots s
    where s.tenant = p_tenant and s.schedule = p_name and s.slot_at = p_at
        and s.subject = p_subject;
    select * into g from interlock.gaps y
    where y.tenant = p_tenant and y.schedule = p_name and y.slot_at = p_at
        and y.subject = p_subject;
    select * into w from interlock.slot_work(x);
    select * into n from interlock.results r
    where r.tenant = p_tenant and r.work_key = x.work_key
    order by r.revision desc limit 1;

    return json_build_object('slot_at', interlock.ts(p_at),
        'until', interlock.ts(p_at), 'slots', 1, 'subjects', 1,
        'business_date', x.business_date, 'subject', p_subject,
        'work_key', x.work_key, 'state', case
            when w.done_at is not null and x.state = 'admitted' then 'run'
            else x.state end,
        'reason', x.reason, 'job_id', coalesce((w.job).id, x.job_id),
        'job_status', (w.job).status,
        'last_success', interlock.ts(n.created_at),
        'processed', n.processed, 'failed', n.failed,
        'delay_seconds', round(extract(epoch from greatest(
            (w.job).started_at - p_at,
            (w.job).started_at - (w.job).started_at))::numeric, 3),
        'generated', (w.result).revision is not null,
        'delivered', w.delivery = 'delivered', 'tries', x.tries,
        'try_at', (
            select interlock.ts(l.try_at) from interlock.slot_lines l
            where l.tenant = p_tenant and l.schedule = p_name
                and l.lane = x.lane), 'gap_id', g.id,
        'gap_state', g.state)::text;
end
$$;

-- skip_doc(…): a row of schedule_skips, likewise.
create or replace function interlock.skip_doc(
    v interlock.schedule_versions, p_from timestamptz, p_to timestamptz,
    p_slots bigint, p_subjects int, p_reason text)
returns text
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select json_build_object('slot_at', interlock.ts(p_from),
        'until', interlock.ts(p_to), 'slots', p_slots,
        'subjects', p_subjects,
        'business_date', interlock.slot_date(v, p_to), 'subject', null,
        'work_key', null, 'state', 'skipped', 'reason', p_reason,
        'job_id', null, 'job_status', null, 'last_success', null,
        'processed', null, 'failed', null, 'delay_seconds', null,
        'generated', false, 'delivered', null, 'tries', 0, 'try_at', null,
        'gap_id', null, 'gap_state', null)::text
$$;

revoke all on function interlock.slot_doc(int, text, timestamptz, text)
    from public;
revoke all on function interlock.skip_doc(interlock.schedule_versions,
    timestamptz, timestamptz, bigint, int, text) from public;
revoke all on function interlock.schedule_slots(int, text, date, date, int,
    text) from public;
grant execute on function interlock.schedule_slots(int, text, date, date,
    int, text) to interlock_service;
