-- schedule_check.sql: what a definition may be; helpers of schedule_put.
-- Locks: none.

-- schedule_check(name, value): what is wrong with one field of a schedule,
-- or null.  The table below is the whole truth about the fields.
create or replace function interlock.schedule_check(
    p_name text, p_value json, out problem text, out detail text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    f       record;
    v_type  text := json_typeof(p_value);
    v_text  text;
begin
    select * into f from (values
        ('cron', 'text', false, 1::bigint, 1024::bigint, '{}'::text[]),
        ('zone', 'text', false, 1, 64, '{}'),
        ('kind', 'text', false, 1, 64, '{}'),
        ('work_key', 'text', false, 1, 1024, '{}'),
        ('subjects', 'subjects', false, 0, 100000, '{}'),
        ('payload', 'json', true, 0, 65536, '{}'),
        ('priority', 'int', true, -100, 100, '{}'),
        ('grace', 'int', false, 0, 31536000, '{}'),
        ('catch_up', 'enum', false, null, null,
            array['latest', 'all', 'skip']),
        ('catch_up_max', 'int', false, 1, 10000, '{}'),
        ('approve_after', 'int', true, 0, 31536000, '{}'),
        ('gap', 'enum', false, null, null, array['run_after', 'skip']),
        ('fold', 'enum', false, null, null,
            array['first', 'second', 'both']),
        ('date_offset', 'int', false, -366, 366, '{}'),
        ('jitter', 'int', false, 0, 86400, '{}'),
        ('start', 'time', true, null, null, '{}'),
        ('end', 'time', true, null, null, '{}'),
        ('paused', 'bool', false, null, null, '{}'),
        ('pause_note', 'text', true, 0, 4096, '{}'),
        ('skip_alarm', 'int', true, 1, 1000000, '{}')
    ) t (name, type, nullable, low, high, words)
    where t.name = p_name;

    if not found then
        problem := 'unknown-field';
        detail := format('a schedule has no field "%s"', left(p_name, 64));
        return;
    end if;

    if f.type <> 'subjects' then
        v_text := p_value #>> '{}';
    end if;

    if v_type = 'null' or f.type in ('int', 'bool', 'enum') then
        detail := interlock.doc_field_trouble(p_name, p_value, f.type,
            f.nullable, f.low, f.high, f.words);
    elsif f.type = 'text' then
        if v_type <> 'string'
            or octet_length(v_text) not between f.low and f.high
        then
            detail := format('"%s" must be a string of %s to %s bytes',
                             p_name, f.low, f.high);
        end if;
    elsif f.type = 'time' then
        if v_type <> 'string' or not interlock.is_rfc3339(v_text) then
            detail := format('"%s" must be a time (RFC 3339)', p_name);
        end if;
    elsif f.type = 'subjects' then
        detail := interlock.subjects_trouble(p_value, f.high::int);
    elsif octet_length(p_value::text) > f.high then
        detail := format('"%s" must be at most %s bytes', p_name, f.high);
    end if;

    if detail is not null then
        problem := 'field-invalid';
    end if;
end
$$;

-- subjects_trouble(value, max): what is wrong with a list of subjects.
create or replace function interlock.subjects_trouble(
    p_value json, p_max int)
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_text  text;
begin
    if json_typeof(p_value) <> 'array' then
        return '"subjects" must be an array of strings';
    elsif json_array_length(p_value) > p_max then
        return format('"subjects" has at most %s entries', p_max);
    elsif exists (select from json_array_elements(p_value) x
                  where json_typeof(x) <> 'string')
    then
        return '"subjects" must be an array of strings';
    end if;

    select left(x, 64) into v_text from json_array_elements_text(p_value) x
    where octet_length(x) not between 1 and 128 or x ~ '[[:cntrl:]]'
    limit 1;
    if found then
        return format('"subjects": "%s" is not a name of 1 to 128 bytes '
                      'without control characters', v_text);
    end if;

    select x into v_text from json_array_elements_text(p_value) x
    group by x having count(*) > 1 order by x limit 1;
    if found then
        return format('"subjects" names "%s" twice', v_text);
    end if;

    return null;
end
$$;

-- template_trouble(field, text): what is wrong with the fields of a template.
create or replace function interlock.template_trouble(
    p_field text, p_text text)
returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select format('"%s" names the field {%s}; there are {subject}, {date}, '
        '{time}, {slot} and {schedule}', p_field, left(x[1], 64))
    from regexp_matches(p_text, '\{([A-Za-z_][A-Za-z0-9_]*)\}', 'g') x
    where x[1] not in ('subject', 'date', 'time', 'slot', 'schedule')
    limit 1
$$;

-- zone_known(name): is it a zone of the IANA data that the server has?
-- PostgreSQL would take offsets and abbreviations besides.  What has a slash
-- and no digit is neither of these, and quick to look up; for the others the
-- server reads all of its zones.
create or replace function interlock.zone_known(p_name text)
returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_name ~* '^(posix|right)/|^(posixrules|localtime|factory)$' then
        return false;
    elsif p_name ~ '^[A-Z][A-Za-z_-]*(/[A-Z][A-Za-z_-]*)+$' then
        perform now() at time zone p_name;
        return true;
    end if;

    return p_name = 'UTC' or exists (
        select from pg_timezone_names z where z.name = p_name);
exception when invalid_parameter_value then
    return false;
end
$$;

-- work_key_trouble(v): what is wrong with the work-key template.
create or replace function interlock.work_key_trouble(
    v interlock.schedule_versions, p_subjects boolean)
returns text
language plpgsql immutable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_detail  text := interlock.template_trouble('work_key', v.work_key);
    v_part    text;
begin
    if v_detail is not null then
        return v_detail;
    elsif cardinality(string_to_array(v.work_key, ':')) > 16 then
        return '"work_key" has at most 16 parts';
    end if;

    foreach v_part in array string_to_array(v.work_key, ':') loop
        if v_part = '' then
            return '"work_key" has an empty part';
        elsif v_part ~ '[[:cntrl:]\s]' or v_part ~ '%(?![0-9A-Fa-f]{2})'
            or regexp_replace(v_part, '\{[a-z]+\}', '', 'g') ~ '[{}]'
        then
            return format('"work_key": the part "%s" must be text and '
                'fields like {subject}, without spaces; "%%" is followed by '
                'two hex digits', left(v_part, 64));
        end if;
    end loop;

    if not p_subjects and v.work_key || v.payload like '%{subject}%' then
        return '"work_key" or "payload" names {subject}, but there are no '
            '"subjects"';
    elsif v.subjects > 1 and v.work_key not like '%{subject}%' then
        return format('"work_key" must name {subject}: there are %s of them, '
            'and each is work of its own', v.subjects);
    end if;

    return null;
end
$$;

-- schedule_rules(v, subjects): what is wrong between the fields of a
-- definition, or null; and its cron expression as masks.  p_subjects: has it
-- subjects of its own?  p_longest: the longest of them, in a work key.
create or replace function interlock.schedule_rules(
    v interlock.schedule_versions, p_subjects boolean, p_longest text,
    out problem text, out detail text, out masks interlock.cron)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    k      interlock.kind_versions;
    c      record;
    v_f    text;
    v_key  text;
begin
    problem := 'field-invalid';

    foreach v_f in array array['cron', 'zone', 'kind', 'work_key'] loop
        if to_jsonb(v) ->> v_f is null then
            detail := format('"%s" is missing', v_f);
            return;
        end if;
    end loop;

    select * into c from interlock.cron_parse(v.cron);
    if c.why is not null then
        detail := '"cron": ' || coalesce(c.field || ': ', '') || c.why;
        return;
    end if;
    masks := c.cron;

    if not interlock.zone_known(v.zone) then
        detail := format('"zone": there is no zone "%s"; zones have names '
            'like Europe/Berlin', left(v.zone, 64));
        return;
    elsif v.end_at <= v.start_at then
        detail := '"end" must be after "start"';
        return;
    end if;

    detail := coalesce(interlock.work_key_trouble(v, p_subjects),
        interlock.template_trouble('payload', v.payload));
    if detail is not null then
        return;
    end if;

    select * into k from interlock.kind_row(v.tenant, v.kind);
    if not found then
        problem := 'kind-unknown';
        detail := format('no kind "%s"', v.kind);
        return;
    end if;

    v_key := interlock.slot_key(interlock.slot_fill(v, current_date, now(),
        v.work_key), p_longest);
    if octet_length(v_key) > 2048 or exists (
        select from unnest(string_to_array(v_key, ':')) x
        where octet_length(x) > 512)
    then
        detail := format('"work_key" is too long for the subject "%s": a '
            'part has at most 512 bytes, a key 2048', left(p_longest, 64));
        return;
    elsif v_key !~ k.key_pattern then
        problem := 'work-key-mismatch';
        detail := format('a work key of kind "%s" is of the form %s',
                         k.name, k.key_template);
        return;
    end if;

    problem := null;
end
$$;

revoke all on function interlock.schedule_check(text, json) from public;
revoke all on function interlock.subjects_trouble(json, int) from public;
revoke all on function interlock.template_trouble(text, text) from public;
revoke all on function interlock.zone_known(text) from public;
revoke all on function interlock.work_key_trouble(
    interlock.schedule_versions, boolean) from public;
revoke all on function interlock.schedule_rules(interlock.schedule_versions,
    boolean, text) from public;
