-- schedule_put(tenant, name, doc): who: interlockd, PUT
-- /v1/schedules/{name}.
-- doc is a JSON object of the fields of schedule_check; what it leaves out
-- keeps its present value, or its default for a new one.  What schedule_get
-- shows besides may be in it and is passed over, but for name, which must be
-- that of the path, and version: one that is not the present one is refused,
-- so that nobody overwrites what he has not seen.
-- A changed definition is a new version and counts from now on: what is due
-- of the old one and was not admitted yet is skipped (reason changed), and no
-- slot of the new one is caught up from before.  paused and pause_note are no
-- part of a definition.
-- Locks: the schedule's row (FOR NO KEY UPDATE; made first if missing).
-- Answers: one row, problem null and doc the schedule (schedule_doc).
-- Refuses: json-invalid, unknown-field, field-invalid, each with a detail
-- that names the field and what is wrong; kind-unknown; work-key-mismatch.
create or replace function interlock.schedule_put(
    p_tenant int, p_name text, p_doc text)
returns table (problem text, detail text, doc text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    f          record;
    c          record;
    s          interlock.schedules;
    v_old      interlock.schedule_versions;
    v_new      interlock.schedule_versions;
    v_now      timestamptz;
    v_names    text[];
    v_problem  text := 'field-invalid';
    v_detail   text;
begin
    perform set_config('synchronous_commit', 'on', true);

    select * into f from interlock.schedule_fields(p_name, p_doc);
    if f.problem is not null then
        return query select f.problem, f.detail, null::text;
        return;
    end if;

    v_now := clock_timestamp();
    insert into interlock.schedules (tenant, name, version, deleted, since,
        scanned_to)
    values (p_tenant, p_name, 1, true, v_now, v_now)
    on conflict do nothing;

    perform from interlock.schedules x
    where x.tenant = p_tenant and x.name = p_name for no key update;

    v_now := clock_timestamp();
    select * into strict s from interlock.schedules x
    where x.tenant = p_tenant and x.name = p_name;
    select * into v_old from interlock.schedule_versions x
    where x.tenant = p_tenant and x.name = p_name and x.version = s.version;

    if f.expect is not null and (s.deleted or f.expect <> s.version::text)
    then
        v_detail := format('"version" is not the present one (%s)',
            case when s.deleted then 'none' else s.version::text end);
    else
        v_new := interlock.schedule_changed(v_old, s, f.changes, f.payload,
                                            f.subjects);
        v_names := coalesce(f.subjects, interlock.schedule_names(v_new));
        select * into c from interlock.schedule_rules(v_new, coalesce(
            v_names <> '{}' and v_names <> '{""}', false), coalesce((
                select x from unnest(v_names) x
                order by octet_length(interlock.key_encode(x)) desc limit 1),
                ''));
        v_problem := c.problem;
        v_detail := c.detail;
    end if;

    if v_detail is not null then
        -- The row that was made above, and nothing else.
        delete from interlock.schedules x
        where x.tenant = p_tenant and x.name = p_name
            and v_old.version is null;
        return query select v_problem, v_detail, null::text;
        return;
    end if;

    v_new.masks := c.masks;
    if s.deleted or v_new is distinct from v_old then
        s := interlock.schedule_replace(s, v_old, v_new, f.subjects, v_now);
    end if;
    s := interlock.schedule_set_pause(s, f.changes, v_now);
    perform interlock.schedule_store(s);

    return query select null::text, null::text, interlock.schedule_doc(s,
        interlock.schedule_version(p_tenant, p_name, s.version), true);
end
$$;

-- schedule_fields(name, doc): reads a doc, field by field.  changes has them
-- under the names of schedule_versions, but for payload (its text) and
-- subjects (null: not there).
create or replace function interlock.schedule_fields(
    p_name text, p_doc text, out problem text, out detail text,
    out changes jsonb, out payload text, out subjects text[],
    out expect text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_json  json := interlock.json_object_of(p_doc);
    v_seen  text[] := '{}';
    r       record;
    c       record;
begin
    select x.problem, x.detail into problem, detail
    from interlock.doc_trouble('a schedule', p_name, v_json) x;
    if problem is not null then
        return;
    end if;

    changes := '{}';
    problem := 'field-invalid';

    for r in select e.key, e.value from json_each(v_json) e loop
        detail := interlock.doc_key_trouble(v_seen, r.key, r.value, p_name);
        if detail is not null then
            return;
        end if;
        v_seen := v_seen || r.key;

        if r.key = 'version' then
            expect := coalesce(r.value #>> '{}', 'null');
        elsif r.key in ('name', 'subject_count', 'next_at', 'skips_in_row',
                        'trouble', 'updated_at', 'last_slot_at',
                        'open_gaps')
        then
            null;    -- shown, and nobody's to set
        else
            select * into c
            from interlock.schedule_check(r.key, r.value);
            if c.problem is not null then
                problem := c.problem;
                detail := c.detail;
                return;
            end if;

            if r.key = 'payload' then
                payload := r.value::text;
            elsif r.key = 'subjects' then
                select coalesce(array_agg(x.s order by x.n), '{}')
                into subjects
                from json_array_elements_text(r.value) with ordinality
                    x (s, n);
            else
                changes := changes || jsonb_build_object(case r.key
                    when 'start' then 'start_at' when 'end' then 'end_at'
                    else r.key end, r.value);
            end if;
        end if;
    end loop;

    problem := null;
end
$$;

-- schedule_names(v): its subjects, in order.
create or replace function interlock.schedule_names(
    v interlock.schedule_versions)
returns text[]
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return (select array_agg(x.subject order by x.n)
            from interlock.schedule_subjects x
            where x.tenant = v.tenant and x.name = v.name
                and x.list = v.list);
end
$$;

-- schedule_changed(old, s, …): the definition that a doc makes of the present
-- one, or of the defaults; list is 0 if the subjects differ.
create or replace function interlock.schedule_changed(
    v_old interlock.schedule_versions, s interlock.schedules,
    p_changes jsonb, p_payload text, p_subjects text[])
returns interlock.schedule_versions
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v  interlock.schedule_versions := v_old;
begin
    if s.deleted then
        v := null;
        v.tenant := s.tenant;
        v.name := s.name;
        v.version := coalesce(v_old.version, 0);
        v.payload := 'null';
        v.grace := 3600;
        v.catch_up := 'latest';
        v.catch_up_max := 100;
        v.gap := 'run_after';
        v.fold := 'first';
        v.date_offset := 0;
        v.jitter := 0;
        v.list := 0;
        v.subjects := 1;
    end if;

    v := jsonb_populate_record(v, p_changes - 'paused' - 'pause_note');
    v.payload := coalesce(p_payload, v.payload);

    if p_subjects is not null and coalesce(nullif(p_subjects, '{}'), '{""}')
        is distinct from interlock.schedule_names(v)
    then
        v.list := 0;
        v.subjects := greatest(1, cardinality(p_subjects));
    end if;

    return v;
end
$$;

-- schedule_replace(s, old, new, subjects, now): puts a new definition in
-- force.
create or replace function interlock.schedule_replace(
    s interlock.schedules, v_old interlock.schedule_versions,
    v_new interlock.schedule_versions, p_subjects text[],
    p_now timestamptz)
returns interlock.schedules
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    if not s.deleted then
        s := (interlock.schedule_pass(s, v_old, p_now, 'changed')).s;
    end if;

    v_new.version := case when v_old.version is null then 1
                     else s.version + 1 end;

    if v_new.list = 0 then
        v_new.list := v_new.version;
        insert into interlock.schedule_subjects (tenant, name, list, n,
            subject)
        select s.tenant, s.name, v_new.list, x.n, x.subject
        from unnest(coalesce(nullif(p_subjects, '{}'), '{""}'))
            with ordinality x (subject, n);
    end if;

    v_new.created_at := p_now;
    insert into interlock.schedule_versions select v_new.*;

    s.version := v_new.version;
    s.deleted := false;
    s.since := p_now;
    s.scanned_to := p_now;
    s.next_at := interlock.schedule_next(v_new, p_now);
    s.trouble := null;
    s.hold_until := null;
    s.updated_at := p_now;
    return s;
end
$$;

-- schedule_set_pause(s, changes, now): pauses or resumes as a doc says.
create or replace function interlock.schedule_set_pause(
    s interlock.schedules, p_changes jsonb, p_now timestamptz)
returns interlock.schedules
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_paused  boolean := coalesce((p_changes ->> 'paused')::boolean,
                                  s.paused);
begin
    if s.paused and not v_paused then
        s := (interlock.schedule_pass(s, interlock.schedule_version(s.tenant,
            s.name, s.version), p_now, 'paused')).s;
    end if;

    s.paused := v_paused;
    s.pause_note := case when not v_paused then null
        when p_changes ? 'pause_note' then p_changes ->> 'pause_note'
        else s.pause_note end;
    if p_changes ? 'paused' or p_changes ? 'pause_note' then
        s.updated_at := p_now;
    end if;
    return s;
end
$$;

revoke all on function interlock.schedule_fields(text, text) from public;
revoke all on function interlock.schedule_names(interlock.schedule_versions)
    from public;
revoke all on function interlock.schedule_changed(
    interlock.schedule_versions, interlock.schedules, jsonb, text, text[])
    from public;
revoke all on function interlock.schedule_replace(interlock.schedules,
    interlock.schedule_versions, interlock.schedule_versions, text[],
    timestamptz) from public;
revoke all on function interlock.schedule_set_pause(interlock.schedules,
    jsonb, timestamptz) from public;
revoke all on function interlock.schedule_put(int, text, text) from public;
grant execute on function interlock.schedule_put(int, text, text)
    to interlock_service;
