-- 03_schedule_row.sql: how schedules are read, and how their templates become
-- work keys and payloads; before the files that use it.  Locks: none.

-- schedule_version(tenant, name, version): a definition, present or past.
create or replace function interlock.schedule_version(
    p_tenant int, p_name text, p_version int)
returns interlock.schedule_versions
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v  interlock.schedule_versions;
begin
    select * into strict v from interlock.schedule_versions x
    where x.tenant = p_tenant and x.name = p_name and x.version = p_version;
    return v;
end
$$;

-- schedule_newest(tenant, name, deleted): the newest definition of a schedule,
-- with `deleted` that of a deleted one, too; nulls if there is none.
create or replace function interlock.schedule_newest(
    p_tenant int, p_name text, p_deleted boolean)
returns interlock.schedule_versions
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v  interlock.schedule_versions;
begin
    select x.* into v
    from interlock.schedules s
    cross join lateral (
        select y.* from interlock.schedule_versions y
        where y.tenant = s.tenant and y.name = s.name
            and y.version = s.version
        limit 1) x
    where s.tenant = p_tenant and s.name = p_name
        and (p_deleted or not s.deleted);
    return v;
end
$$;

-- schedule_next(v, after): the first slot after that time, or null.
create or replace function interlock.schedule_next(
    v interlock.schedule_versions, p_after timestamptz)
returns timestamptz
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_at  timestamptz;
begin
    v_at := interlock.cron_next(v.masks, v.zone, greatest(p_after,
        v.start_at - interval '1 microsecond'), v.gap, v.fold);
    return case when v.end_at is null or v_at < v.end_at then v_at end;
end
$$;

-- slot_date(v, at): the business date of a slot.
create or replace function interlock.slot_date(
    v interlock.schedule_versions, p_at timestamptz)
returns date
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select ((p_at at time zone (v).zone)::date + (v).date_offset)
$$;

-- date_slots(v, date): the slots of a business date, in order.
create or replace function interlock.date_slots(
    v interlock.schedule_versions, p_date date)
returns timestamptz[]
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    -- Otherwise a slot in a gap of the clock may be called the day after.
    v_still  boolean := interlock.day_offset(v.zone,
                            p_date - v.date_offset) is not null;
begin
    return coalesce((
        select array_agg(distinct x.at order by x.at)
        from generate_series(case when v_still then 0 else -1 end, 0) i
        cross join unnest(interlock.cron_day(v.masks, v.zone,
            p_date - v.date_offset + i, v.gap, v.fold)) x (at)
        where (v_still or interlock.slot_date(v, x.at) = p_date)
            and (v.start_at is null or x.at >= v.start_at)
            and (v.end_at is null or x.at < v.end_at)), '{}');
end
$$;

-- date_first(v, date): the first slot of a business date, or null; without a
-- look at the others on a day on which no clock moves.
create or replace function interlock.date_first(
    v interlock.schedule_versions, p_date date)
returns timestamptz
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_day    date := p_date - v.date_offset;
    v_off    interval := interlock.day_offset(v.zone, v_day);
    v_start  timestamptz := (v_day::timestamp at time zone 'UTC') - v_off;
    v_at     timestamptz;
begin
    if v_off is null then
        return (interlock.date_slots(v, p_date))[1];
    elsif not interlock.cron_on(v.masks, v_day) then
        return null;
    end if;

    v_at := interlock.cron_next(v.masks, v.zone,
        greatest(v_start, v.start_at) - interval '1 microsecond', v.gap,
        v.fold);

    return case when v_at < v_start + interval '24 hours'
        and (v.end_at is null or v_at < v.end_at) then v_at end;
end
$$;

-- slot_fill(v, date, at, text): a template with all fields but {subject}
-- filled in.  Their values have neither braces nor anything that a work key
-- or JSON would encode.
create or replace function interlock.slot_fill(
    v interlock.schedule_versions, p_date date, p_at timestamptz,
    p_text text)
returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select replace(replace(replace(replace(p_text,
        '{date}', to_char(p_date, 'YYYY-MM-DD')),
        '{time}', coalesce(to_char(p_at at time zone (v).zone, 'HH24MI'),
                           '')),
        '{slot}', coalesce(to_char(p_at at time zone 'UTC',
                                   'YYYYMMDD"T"HH24MISS"Z"'), '')),
        '{schedule}', (v).name)
$$;

-- key_encode(text): a value as il_key_build() writes it into a work key.
create or replace function interlock.key_encode(p_text text)
returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_out  text := '';
    c      text;
begin
    if p_text ~ '^[^%:[:cntrl:]\s./]+$' then
        return p_text;
    end if;

    foreach c in array regexp_split_to_array(p_text, '') loop
        v_out := v_out || case
            when c in ('%', ':') or ascii(c) <= 32 or ascii(c) = 127
            then '%' || upper(lpad(to_hex(ascii(c)), 2, '0'))
            else c end;
    end loop;

    -- "." and ".." between slashes, which no URL can carry.
    for i in 1 .. 2 loop
        v_out := regexp_replace(v_out, '(^|/)\.(?=/|$)', '\1%2E', 'g');
        v_out := regexp_replace(v_out, '(^|/)\.\.(?=/|$)', '\1%2E%2E', 'g');
    end loop;

    return v_out;
end
$$;

-- slot_key(template, subject), slot_payload(template, subject): the last
-- step, for one subject.
create or replace function interlock.slot_key(p_text text, p_subject text)
returns text
language sql immutable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select replace(p_text, '{subject}', interlock.key_encode(p_subject))
$$;

create or replace function interlock.slot_payload(
    p_text text, p_subject text)
returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case when p_text = 'null' then null
        else replace(p_text, '{subject}',
            substr(to_json(p_subject)::text, 2,
                   length(to_json(p_subject)::text) - 2)) end
$$;

-- slot_alone(v, at): has no other slot of this definition the work keys of its
-- slot at that time?  {slot} names an instant.  {date} names a day of one slot
-- at least; {date} and {time} of one, unless the clock is put back and both
-- count.  Dates and times have a fixed length, so that no subject makes the
-- keys of two slots equal.
create or replace function interlock.slot_alone(
    v interlock.schedule_versions, p_at timestamptz)
returns boolean
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_date   date := interlock.slot_date(v, p_at);
    v_timed  boolean := strpos(v.work_key, '{time}') > 0;
    v_key    text;
begin
    if strpos(v.work_key, '{slot}') > 0 then
        return true;
    elsif strpos(v.work_key, '{date}') = 0 then
        return false;
    elsif p_at is null or (v_timed and v.fold <> 'both') then
        return true;
    elsif not v_timed and coalesce(interlock.slot_date(v,
        interlock.schedule_next(v, p_at)) = v_date, false)
    then
        return false;
    end if;

    v_key := interlock.slot_fill(v, v_date, p_at, v.work_key);
    return not exists (
        select from unnest(interlock.date_slots(v, v_date)) x (at)
        where x.at <> p_at
            and interlock.slot_fill(v, v_date, x.at, v.work_key) = v_key);
end
$$;

-- slot_ref(schedule, at, subject): the idempotency key of a slot's request.
create or replace function interlock.slot_ref(
    p_schedule text, p_at timestamptz, p_subject text)
returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select concat_ws(':', 'slot', p_schedule, to_char(p_at at time zone
        'UTC', 'YYYYMMDD"T"HH24MISS"Z"'), p_subject)
$$;

-- new_id(): a UUIDv7, as interlockd gives to requests: they grow with time.
create or replace function interlock.new_id() returns uuid
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select (lpad(to_hex(floor(extract(epoch from clock_timestamp())
            * 1000)::bigint), 12, '0') || '7'
        || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid
$$;

-- schedule_doc(s, v, subjects): the JSON object of the API; the names of the
-- subjects only if asked for, and if they are not too many.
create or replace function interlock.schedule_doc(
    s interlock.schedules, v interlock.schedule_versions,
    p_subjects boolean)
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_names  json;
    v_head   text;
begin
    if p_subjects and v.subjects <= 1000 then
        select json_agg(x.subject order by x.n) into v_names
        from interlock.schedule_subjects x
        where x.tenant = v.tenant and x.name = v.name and x.list = v.list;
    end if;

    v_head := json_build_object('name', s.name, 'version', s.version,
        'cron', v.cron, 'zone', v.zone, 'kind', v.kind,
        'work_key', v.work_key, 'payload', v.payload::json)::text;

    return left(v_head, -1)
        || coalesce(', "subjects" : ' || v_names::text, '') || ', '
        || substr(json_build_object(
            'subject_count', v.subjects, 'priority', v.priority,
            'grace', v.grace, 'catch_up', v.catch_up,
            'catch_up_max', v.catch_up_max,
            'approve_after', v.approve_after, 'gap', v.gap, 'fold', v.fold,
            'date_offset', v.date_offset, 'jitter', v.jitter,
            'start', interlock.ts(v.start_at),
            'end', interlock.ts(v.end_at), 'skip_alarm', v.skip_alarm,
            'paused', s.paused, 'pause_note', s.pause_note,
            'next_at', case when not s.paused then
                interlock.ts(coalesce(s.slot_at, s.next_at)) end,
            'skips_in_row', s.skips, 'trouble', s.trouble,
            'updated_at', interlock.ts(s.updated_at))::text, 2);
end
$$;

revoke all on function interlock.schedule_newest(int, text, boolean)
    from public;
revoke all on function interlock.schedule_version(int, text, int)
    from public;
revoke all on function interlock.schedule_next(interlock.schedule_versions,
    timestamptz) from public;
revoke all on function interlock.slot_date(interlock.schedule_versions,
    timestamptz) from public;
revoke all on function interlock.date_first(interlock.schedule_versions,
    date) from public;
revoke all on function interlock.date_slots(interlock.schedule_versions,
    date) from public;
revoke all on function interlock.slot_fill(interlock.schedule_versions, date,
    timestamptz, text) from public;
revoke all on function interlock.key_encode(text) from public;
revoke all on function interlock.slot_key(text, text) from public;
revoke all on function interlock.slot_payload(text, text) from public;
revoke all on function interlock.slot_alone(interlock.schedule_versions,
    timestamptz) from public;
revoke all on function interlock.slot_ref(text, timestamptz, text)
    from public;
revoke all on function interlock.new_id() from public;
revoke all on function interlock.schedule_doc(interlock.schedules,
    interlock.schedule_versions, boolean) from public;
