-- alerts.sql: who is told of what.  The scan that finds out is in
-- alert_scan.sql, the sending in alert_send.sql.

-- alert_conditions(): what an alert may be told of.
--   gap              a slot's work is not done after its grace time
--   check_exhausted  nobody could look up what became of a job or an effect:
--                    a human must say
--   held             a job waits for a decision
--   failed           a job failed for good; over when somebody took it back,
--                    or a later job of its work key has succeeded
--   skips            skip_alarm slots of a schedule were skipped in a row
--   queue_age        a job that could run has waited for its kind's alert_at
--   stopped          the claims of a kind are paused
create or replace function interlock.alert_conditions()
returns text[]
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select array['gap', 'check_exhausted', 'held', 'failed', 'skips',
        'queue_age', 'stopped']
$$;

-- alert_field(name, value): what is wrong with one field of an alert, as an
-- English sentence, or null.  Says nothing of a secret's value.
create or replace function interlock.alert_field(
    p_name text, p_value json, out problem text, out detail text)
language plpgsql immutable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_type  text := json_typeof(p_value);
    v_text  text := p_value #>> '{}';
    v_bad   text;
begin
    if p_name = 'url' then
        v_bad := coalesce(interlock.url_trouble(
                interlock.check_word(p_value)),
            case when v_text ~ '[{}]' then 'may not have a brace' end);

    elsif p_name = 'secret' then
        if v_type <> 'string' then
            v_bad := 'must be a string';
        elsif v_text like '@%' then
            v_bad := case when v_text !~ '^@[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'
                then 'must name a file of the secrets'' directory, "@name"'
                end;
        elsif v_text !~ '^whsec_([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$'
            or octet_length(decode(substr(v_text, 7), 'base64'))
                not between 24 and 64
        then
            v_bad := 'must be "whsec_" and 24 to 64 bytes in base64, or '
                '"@name", a file of the secrets'' directory';
        end if;

    elsif p_name in ('conditions', 'kinds', 'schedules') then
        if v_type = 'null' and p_name <> 'conditions' then
            null;
        elsif v_type <> 'array'
            or json_array_length(p_value) not between 1 and 200
            or exists (select from json_array_elements(p_value) x
                       where json_typeof(x) <> 'string')
        then
            v_bad := 'must be an array of 1 to 200 strings';
        elsif (select count(*) <> count(distinct x)
               from json_array_elements_text(p_value) x)
        then
            v_bad := 'names something twice';
        elsif p_name = 'conditions' and exists (
            select from json_array_elements_text(p_value) x
            where x <> all (interlock.alert_conditions()))
        then
            v_bad := 'must be some of ' || array_to_string(
                interlock.alert_conditions(), ', ');
        elsif exists (select from json_array_elements_text(p_value) x
                      where x !~ '^[a-z0-9][a-z0-9._-]{0,63}$')
            and p_name <> 'conditions'
        then
            v_bad := 'must be names';
        end if;

    else
        problem := 'unknown-field';
        detail := format('an alert has no field "%s"', left(p_name, 64));
        return;
    end if;

    if v_bad is not null then
        problem := 'field-invalid';
        detail := format('"%s" %s', p_name, v_bad);
    end if;
end
$$;

-- alert_names(tenant, field, names, old): is there each of these kinds, or
-- schedules?  What an alert (old) is about already may have gone meanwhile.
create or replace function interlock.alert_names(
    p_tenant int, p_field text, p_names text[], p_old text[],
    out problem text, out detail text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_name  text;
begin
    foreach v_name in array coalesce(p_names, '{}') loop
        continue when v_name = any (p_old);

        if p_field = 'kinds' then
            perform from interlock.kind_row(p_tenant, v_name);
            problem := 'kind-unknown';
            detail := format('"kinds": there is no kind "%s"', v_name);
        else
            perform from interlock.schedules s
            where s.tenant = p_tenant and s.name = v_name and not s.deleted;
            problem := 'field-invalid';
            detail := format('"schedules": there is no schedule "%s"',
                             v_name);
        end if;

        if not found then
            return;
        end if;
    end loop;

    problem := null;
    detail := null;
end
$$;

-- alert_doc(a): the JSON object of the API.  A secret is never in it; the
-- name of a secret's file is.
create or replace function interlock.alert_doc(a interlock.alerts)
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_open     bigint;
    v_pending  bigint;
begin
    select count(*) into v_open from interlock.alert_states s
    where s.tenant = a.tenant and s.alert = a.name;
    select count(*) into v_pending from interlock.alert_deliveries d
    where d.tenant = a.tenant and d.alert = a.name;

    return interlock.json_more(json_build_object('name', a.name,
        'url', a.url, 'conditions', a.conditions, 'kinds', a.kinds,
        'schedules', a.schedules, 'open', v_open, 'pending', v_pending,
        'fails', a.fails, 'last_sent_at', interlock.ts(a.last_sent_at),
        'last_error', a.last_error,
        'created_at', interlock.ts(a.created_at),
        'updated_at', interlock.ts(a.updated_at))::text,
        case when a.secret_file is not null
        then json_build_object('secret', '@' || a.secret_file)::text end);
end
$$;

-- alert_put(tenant, name, doc): who: interlockd, PUT /v1/alerts/{name}, once
-- the URL's host was found to be one that may be called.
-- What doc leaves out keeps its value; a new alert needs url and secret.  An
-- alert is told of what begins after it was made, and at once of what can be
-- seen to hold: skips, queue_age, stopped.  A change of the secret or the URL
-- counts for what is not delivered yet, too.
-- Locks: the tenant's scan, then the alert's row.
-- Answers: one row, problem null and doc the alert.
-- Refuses: json-invalid, unknown-field, field-invalid (a schedule that is not
-- there, too), kind-unknown.
create or replace function interlock.alert_put(
    p_tenant int, p_name text, p_doc text)
returns table (problem text, detail text, doc text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
declare
    v_json    json := interlock.json_object_of(p_doc);
    v_new     boolean;
    v_seen    text[] := '{}';
    v_secret  text;
    v_bad     text;
    a         interlock.alerts;
    s         interlock.alert_states;
    c         record;
    r         record;
begin
    perform set_config('synchronous_commit', 'on', true);

    select * into c from interlock.doc_trouble('an alert', p_name, v_json);
    if c.problem is not null then
        return query select c.problem, c.detail, null::text;
        return;
    end if;

    insert into interlock.alert_scans (tenant) values (p_tenant)
    on conflict do nothing;
    perform from interlock.alert_scans s where s.tenant = p_tenant
    for no key update;

    select * into a from interlock.alerts x
    where x.tenant = p_tenant and x.name = p_name for no key update;
    v_new := not found;

    if v_new then
        a.tenant := p_tenant;
        a.name := p_name;
        a.conditions := interlock.alert_conditions();
        a.fails := 0;
        a.created_at := clock_timestamp();
    end if;

    for r in select e.key, e.value from json_each(v_json) e loop
        v_bad := interlock.doc_key_trouble(v_seen, r.key, r.value, p_name);
        if v_bad is not null then
            return query select 'field-invalid', v_bad, null::text;
            return;
        end if;
        v_seen := v_seen || r.key;

        -- As GET shows them.
        continue when r.key in ('name', 'open', 'pending', 'fails',
            'last_sent_at', 'last_error', 'created_at', 'updated_at', 'states', 'events');

        select * into c from interlock.alert_field(r.key, r.value);
        if c.problem is not null then
            return query select c.problem, c.detail, null::text;
            return;
        end if;

        if r.key in ('kinds', 'schedules') then
            select * into c from interlock.alert_names(p_tenant, r.key,
                interlock.text_array(r.value), case r.key when 'kinds'
                    then a.kinds else a.schedules end);
            if c.problem is not null then
                return query select c.problem, c.detail, null::text;
                return;
            end if;
        end if;

        case r.key
        when 'url' then
            a.url := r.value #>> '{}';
        when 'secret' then
            v_secret := r.value #>> '{}';
            a.secret_file := case when v_secret like '@%'
                then substr(v_secret, 2) end;
        when 'conditions' then
            a.conditions := interlock.text_array(r.value);
        when 'kinds' then
            a.kinds := interlock.text_array(r.value);
        when 'schedules' then
            a.schedules := interlock.text_array(r.value);
        end case;
    end loop;

    if a.url is null or (v_new and v_secret is null) then
        return query select 'field-invalid', format('"%s" is missing',
            case when a.url is null then 'url' else 'secret' end),
            null::text;
        return;
    end if;

    a.updated_at := clock_timestamp();
    a.fails := 0;
    a.hold_until := null;
    a.due_at := case when a.due_at is not null
        then least(a.due_at, a.updated_at) end;

    insert into interlock.alerts select a.*
    on conflict (tenant, name) do update
    set url = excluded.url, conditions = excluded.conditions,
        kinds = excluded.kinds, schedules = excluded.schedules,
        secret_file = excluded.secret_file, due_at = excluded.due_at,
        hold_until = excluded.hold_until, fails = excluded.fails,
        updated_at = excluded.updated_at;

    if v_secret is not null then
        insert into interlock.alert_secrets (tenant, alert, secret)
        values (p_tenant, p_name, case when a.secret_file is null
            then decode(substr(v_secret, 7), 'base64') end)
        on conflict (tenant, alert) do update set secret = excluded.secret;
    end if;

    -- Of what it is not told any more, it is told so.
    for s in
        select * from interlock.alert_states x
        where x.tenant = p_tenant and x.alert = p_name
            and x.subject not like 'more:%'
            and (x.condition <> all (a.conditions) or x.kind <> all (a.kinds)
                 or x.schedule <> all (a.schedules))
    loop
        perform interlock.alert_set(a, false, s.condition, s.subject, s.kind,
            s.schedule, s.work_key, a.updated_at, json_build_object('why',
                'the alert is not told of this any more'));
    end loop;

    select * into a from interlock.alerts x
    where x.tenant = p_tenant and x.name = p_name;

    return query select null::text, null::text, interlock.alert_doc(a);
end
$$;

-- json_more(a, b): the members of two JSON objects, neither of them empty, as
-- text; b may be null.
create or replace function interlock.json_more(a text, b text)
returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case when b is null then a
        else left(a, -1) || ', ' || substr(b, 2) end
$$;

-- text_array(json): an array of strings as such; null for null.
create or replace function interlock.text_array(p_value json)
returns text[]
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case when json_typeof(p_value) = 'array'
        then array(select x from json_array_elements_text(p_value)
                       with ordinality as e (x, n) order by n) end
$$;

-- alert_get(tenant, name): who: interlockd, GET /v1/alerts/{name}.
-- Locks: none.  Answers: the alert, with what it was told of that is not over
-- and its last events, newest first (of both at most 100); no row if there is
-- none.
create or replace function interlock.alert_get(p_tenant int, p_name text)
returns table (doc text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    a  interlock.alerts;
begin
    select * into a from interlock.alerts x
    where x.tenant = p_tenant and x.name = p_name;
    if not found then
        return;
    end if;

    return query
    select interlock.json_more(interlock.alert_doc(a), json_build_object(
        'states', coalesce((
            select json_agg(json_build_object('condition', s.condition,
                'subject', s.subject, 'since', interlock.ts(s.since),
                'event_id', s.event_id) order by s.condition, s.subject)
            from (select x.* from interlock.alert_states x
                  where x.tenant = p_tenant and x.alert = p_name
                  order by x.condition, x.subject limit 100) s), '[]'),
        'events', coalesce((
            select json_agg(json_build_object('event_id', e.id,
                'condition', e.condition, 'subject', e.subject,
                'state', e.state, 'at', interlock.ts(e.at),
                'tries', e.tries,
                'delivered_at', interlock.ts(e.delivered_at),
                'dropped_at', interlock.ts(e.dropped_at),
                'last_status', e.last_status, 'last_error', e.last_error)
                order by e.seq desc)
            from (select x.* from interlock.alert_events x
                  where x.tenant = p_tenant and x.alert = p_name
                  order by x.seq desc limit 100) e), '[]'))::text);
end
$$;

-- alert_list(tenant): who: interlockd, GET /v1/alerts.
-- Locks: none.  Answers: every alert, by name.
create or replace function interlock.alert_list(p_tenant int)
returns table (doc text)
language sql stable security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
    select interlock.alert_doc(a) from interlock.alerts a
    where a.tenant = p_tenant order by a.name
$$;

-- alert_delete(tenant, name): who: interlockd, DELETE /v1/alerts/{name}.
-- Its events stay; what of them is not delivered never will be.
-- Locks: as alert_put.  Answers: one row, problem null; no row if there is no
-- such alert.
create or replace function interlock.alert_delete(p_tenant int, p_name text)
returns table (problem text, detail text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
begin
    perform set_config('synchronous_commit', 'on', true);

    perform from interlock.alert_scans s where s.tenant = p_tenant
    for no key update;

    delete from interlock.alerts a
    where a.tenant = p_tenant and a.name = p_name;
    if not found then
        return;
    end if;

    delete from interlock.alert_secrets s
    where s.tenant = p_tenant and s.alert = p_name;
    delete from interlock.alert_states s
    where s.tenant = p_tenant and s.alert = p_name;

    update interlock.alert_events e
    set dropped_at = clock_timestamp(), last_error = 'the alert was deleted'
    from (select y.tid
          from interlock.alert_deliveries d
          cross join lateral (
              select z.ctid as tid from interlock.alert_events z
              where z.tenant = d.tenant and z.id = d.event_id
              limit 1) y
          where d.tenant = p_tenant and d.alert = p_name) x
    where e.ctid = x.tid;
    delete from interlock.alert_deliveries d
    where d.tenant = p_tenant and d.alert = p_name;

    return query select null::text, null::text;
end
$$;

revoke all on function interlock.alert_conditions() from public;
revoke all on function interlock.alert_field(text, json) from public;
revoke all on function interlock.alert_names(int, text, text[], text[])
    from public;
revoke all on function interlock.alert_doc(interlock.alerts) from public;
revoke all on function interlock.json_more(text, text) from public;
revoke all on function interlock.text_array(json) from public;
revoke all on function interlock.alert_put(int, text, text) from public;
revoke all on function interlock.alert_get(int, text) from public;
revoke all on function interlock.alert_list(int) from public;
revoke all on function interlock.alert_delete(int, text) from public;
grant execute on function interlock.alert_put(int, text, text)
    to interlock_service;
grant execute on function interlock.alert_get(int, text)
    to interlock_service;
grant execute on function interlock.alert_list(int) to interlock_service;
grant execute on function interlock.alert_delete(int, text)
    to interlock_service;
