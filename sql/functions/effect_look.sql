-- effect_look.sql: how effects are shown.

-- effect_why(e): what an unsettled effect waits for, in words, or null.
create or replace function interlock.effect_why(e interlock.effects)
returns text
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select case e.state
        when 'intended' then 'a send is under way until '
            || interlock.ts(e.open_until)
        when 'needs_human' then 'nobody could find out whether it happened: '
            'a human decides'
        when 'unknown' then case
            when e.no_round = e.round then 'its provider said that it did '
                'not happen'
            when e.human_at is not null then 'nobody can look it up: it '
                'may be sent again under its key, or goes to a human at '
                || interlock.ts(e.human_at)
            else 'it is not known whether it happened: it is being looked '
                'up' end end
$$;

-- effect_json(e): an effect in lists.
create or replace function interlock.effect_json(e interlock.effects)
returns json
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select json_build_object(
        'effect_id', e.id,
        'name', e.name,
        'kind', e.kind,
        'scope', e.scope_kind,
        'state', e.state,
        'work_key', e.work_key,
        'job_id', e.job_id,
        'target', e.target,
        'provider_ref', e.provider_ref,
        'round', e.round,
        'idempotency_key', interlock.effect_key(e.id, e.round),
        'compensates', e.compensates,
        'response_status', e.response_status,
        'created_at', interlock.ts(e.created_at),
        'changed_at', interlock.ts(e.changed_at),
        'first_sent', interlock.ts(e.first_sent),
        'last_sent', interlock.ts(e.last_sent),
        'unknown_since', interlock.ts(e.unknown_since),
        'why', interlock.effect_why(e))
$$;

-- history_doc(h, e): an entry of an effect's history, as the API and the
-- audit show it.
create or replace function interlock.history_doc(
    h interlock.effects_history, e interlock.effects)
returns json
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select json_strip_nulls(json_build_object(
        'at', interlock.ts(h.at),
        'what', 'effect ' || h.what,
        'effect_id', h.effect_id,
        'name', e.name,
        'kind', e.kind,
        'from', h.from_state,
        'state', h.to_state,
        'round', h.round,
        'seq', h.seq,
        'said', h.said,
        'send_id', h.send_id,
        'attempt_id', h.attempt_id,
        'job_id', h.job_id,
        'fence', h.fence,
        'provider_ref', h.provider_ref,
        'detail', h.detail,
        'response_status', h.response_status,
        'requested_by', h.requested_by,
        'reason', h.reason,
        'token_id', h.token_id,
        'token_name', h.token_name,
        'contradiction', h.contradiction))
$$;

-- bytes_text(bytes): them as text, or null if they are none.
create or replace function interlock.bytes_text(p_bytes bytea)
returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    return convert_from(p_bytes, 'UTF8');
exception when character_not_in_repertoire or untranslatable_character then
    return null;
end
$$;

-- effect_doc(e): an effect with its sends, what its provider answered, the
-- look-ups and its history, which is how the API shows one.
create or replace function interlock.effect_doc(e interlock.effects)
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_doc      text := interlock.effect_json(e)::text;
    v_sends    json;
    v_history  json;
    v_checks   json;
    v_text     text;
begin
    select json_agg(json_build_object('send_id', s.id, 'n', s.n,
            'round', s.round, 'attempt_id', s.attempt_id,
            'job_id', s.job_id, 'fence', s.fence,
            'begun_at', interlock.ts(s.begun_at),
            'deadline', interlock.ts(s.deadline), 'outcome', s.outcome,
            'ended_at', interlock.ts(s.ended_at), 'ended_by', s.ended_by,
            'heard', s.heard, 'heard_at', interlock.ts(s.heard_at),
            'provider_ref', s.provider_ref) order by s.n)
    into v_sends
    from (select x.* from interlock.sends x
          where x.tenant = e.tenant and x.effect_id = e.id
          order by x.n desc limit 1000) s;

    select json_agg(interlock.history_doc(h, e) order by h.id)
    into v_history
    from (select x.* from interlock.effects_history x
          where x.tenant = e.tenant and x.effect_id = e.id
          order by x.id desc limit 1000) h;

    select json_agg(json_build_object('try', c.try,
            'started_at', interlock.ts(c.started_at),
            'at', interlock.ts(c.at), 'answer', c.answer,
            'detail', c.detail, 'provider_ref', c.ref,
            'outcome', c.outcome) order by c.at, c.id)
    into v_checks
    from (select x.* from interlock.check_answers x
          where x.tenant = e.tenant and x.target = e.id
              and x.subject = 'effect'
          order by x.at desc limit 200) c;

    -- The two objects' texts, put together without a parse in between.
    v_text := json_build_object(
        'duplicates', (
            select count(*) from interlock.effects_history x
            where x.tenant = e.tenant and x.effect_id = e.id
                and x.contradiction is not null),
        'request_digest', encode(e.digest, 'hex'),
        'response_type', e.response_type,
        'response_bytes', octet_length(e.response),
        'response_text', interlock.bytes_text(e.response),
        'checks', coalesce(v_checks, '[]'::json),
        'sends', coalesce(v_sends, '[]'::json),
        'history', coalesce(v_history, '[]'::json))::text;
    return rtrim(v_doc, '}') || ', ' || ltrim(v_text, '{');
end
$$;

-- effect_get(tenant, effect): who: interlockd, GET /v1/effects/{id}.
-- Locks: none.  Answers: the effect with its sends and history; no row if
-- there is none.
create or replace function interlock.effect_get(
    p_tenant int, p_effect uuid)
returns table (doc text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    e  interlock.effects;
begin
    select * into e from interlock.effects x
    where x.tenant = p_tenant and x.id = p_effect;
    if found then
        doc := interlock.effect_doc(e);
        return next;
    end if;
end
$$;

-- effects_list(…): who: interlockd, GET /v1/effects: the audit list, by the
-- time at which effects were begun, newest first.  What is null is not asked
-- for; since is included, until is not.
-- Locks: none.  Answers at most limit rows, each with the cursor from which
-- the next page goes on; a last one without a doc if the rows that a page
-- looks at (05_list_scan.sql) were used up before.  A cursor that is none
-- gives no row.
create or replace function interlock.effects_list(
    p_tenant int, p_work_key text, p_state text, p_kind text,
    p_since timestamptz, p_until timestamptz, p_limit int, p_cursor text)
returns table (doc text, cursor text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    v_span   int := interlock.list_span();
    v_since  timestamptz := coalesce(p_since, '-infinity');
    v_at     timestamptz := coalesce(p_until, 'infinity');
    v_id     uuid := '00000000-0000-0000-0000-000000000000';
    v_limit  int := greatest(0, least(p_limit, 1000));
    v_n      int;
    v_rest   text;
begin
    if p_cursor is not null then
        if p_cursor !~ '^[0-9]{1,17}_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
        then
            return;
        end if;
        v_at := timestamptz 'epoch' + interval '1 microsecond'
            * split_part(p_cursor, '_', 1)::bigint;
        v_id := split_part(p_cursor, '_', 2)::uuid;
    end if;

    if p_work_key is not null then
        return query
        select interlock.effect_json(s.e)::text, interlock.effect_cursor(s.e)
        from (select e from interlock.effects e
              where e.tenant = p_tenant and e.work_key = p_work_key
                  and (e.created_at, e.id) < (v_at, v_id)
                  and e.created_at >= v_since
              order by e.created_at desc, e.id desc limit v_span) s
        where (p_until is null or (s.e).created_at < p_until)
            and (p_state is null or (s.e).state = p_state)
            and (p_kind is null or (s.e).kind = p_kind)
        limit v_limit;
        get diagnostics v_n = row_count;
        if v_n < v_limit then
            select interlock.effect_cursor(e) into v_rest
            from interlock.effects e
            where e.tenant = p_tenant and e.work_key = p_work_key
                and (e.created_at, e.id) < (v_at, v_id)
                and e.created_at >= v_since
            order by e.created_at desc, e.id desc
            offset v_span - 1 limit 1;
        end if;
    elsif p_state is not null then
        return query
        select interlock.effect_json(s.e)::text, interlock.effect_cursor(s.e)
        from (select e from interlock.effects e
              where e.tenant = p_tenant and e.state = p_state
                  and (e.created_at, e.id) < (v_at, v_id)
                  and e.created_at >= v_since
              order by e.created_at desc, e.id desc limit v_span) s
        where (p_until is null or (s.e).created_at < p_until)
            and (p_kind is null or (s.e).kind = p_kind)
        limit v_limit;
        get diagnostics v_n = row_count;
        if v_n < v_limit then
            select interlock.effect_cursor(e) into v_rest
            from interlock.effects e
            where e.tenant = p_tenant and e.state = p_state
                and (e.created_at, e.id) < (v_at, v_id)
                and e.created_at >= v_since
            order by e.created_at desc, e.id desc
            offset v_span - 1 limit 1;
        end if;
    else
        return query
        select interlock.effect_json(s.e)::text, interlock.effect_cursor(s.e)
        from (select e from interlock.effects e
              where e.tenant = p_tenant
                  and (e.created_at, e.id) < (v_at, v_id)
                  and e.created_at >= v_since
              order by e.created_at desc, e.id desc limit v_span) s
        where (p_until is null or (s.e).created_at < p_until)
            and (p_kind is null or (s.e).kind = p_kind)
        limit v_limit;
        get diagnostics v_n = row_count;
        if v_n < v_limit then
            select interlock.effect_cursor(e) into v_rest
            from interlock.effects e
            where e.tenant = p_tenant
                and (e.created_at, e.id) < (v_at, v_id)
                and e.created_at >= v_since
            order by e.created_at desc, e.id desc
            offset v_span - 1 limit 1;
        end if;
    end if;

    if v_rest is not null then
        return query select null::text, v_rest;
    end if;
end
$$;

-- effect_cursor(e): names e's place in the list.
create or replace function interlock.effect_cursor(e interlock.effects)
returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select (extract(epoch from e.created_at) * 1000000)::bigint || '_' || e.id
$$;

revoke all on function interlock.bytes_text(bytea) from public;
revoke all on function interlock.effect_json(interlock.effects) from public;
revoke all on function interlock.effect_why(interlock.effects) from public;
revoke all on function interlock.history_doc(interlock.effects_history,
    interlock.effects) from public;
revoke all on function interlock.effect_doc(interlock.effects) from public;
revoke all on function interlock.effect_cursor(interlock.effects)
    from public;
revoke all on function interlock.effect_get(int, uuid) from public;
revoke all on function interlock.effects_list(int, text, text, text,
    timestamptz, timestamptz, int, text) from public;
grant execute on function interlock.effect_get(int, uuid)
    to interlock_service;
grant execute on function interlock.effects_list(int, text, text, text,
    timestamptz, timestamptz, int, text) to interlock_service;
