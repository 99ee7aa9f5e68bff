-- effect_evidence.sql: what a provider's own webhooks say of effects.  They
-- come in as any request does; the job that such a request becomes is noted
-- (trigger jobs_evidence) if an effect kind learns from its source, and looked
-- into afterwards.  A request that becomes no job (a repeat, or one that its
-- overlap policy answered otherwise) brings no payload and is no evidence.

-- evidence_trouble(evidence): what is wrong with an effect kind's evidence,
-- as an English sentence without its subject, or null.  One object, or an
-- array of at most 10 of them:
--   {"source": "stripe",         where its requests come in
--    "each": "/events",          an array of events within the body; default:
--                                the body is one event, or an array of them
--    "match": {"effect_id": "/data/object/metadata/effect"}
--                                or idempotency_key, or provider_ref
--    "ref": "/data/object/id",   the provider's reference in an event
--    "confirmed": {"pointer": "/type", "equals": ["charge.succeeded"]},
--    "failed": {…}}              which events say that it happened, or not
create or replace function interlock.evidence_trouble(p_evidence json)
returns text
language plpgsql immutable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_bad  text;
    r      record;
begin
    if json_typeof(p_evidence) = 'array' then
        if json_array_length(p_evidence) not between 1 and 10 then
            return 'must have 1 to 10 entries';
        end if;
        for r in select x.value from json_array_elements(p_evidence) x loop
            v_bad := case when json_typeof(r.value) = 'array'
                then 'must be an object, or an array of them'
                else interlock.evidence_trouble(r.value) end;
            if v_bad is not null then
                return v_bad;
            end if;
        end loop;
        return null;
    elsif json_typeof(p_evidence) <> 'object' then
        return 'must be an object, or an array of them';
    end if;

    select format('has no field "%s"', left(x.key, 64)) into v_bad
    from json_object_keys(p_evidence) x (key)
    where x.key not in ('source', 'each', 'match', 'ref', 'confirmed',
        'failed')
    limit 1;
    if found then
        return v_bad;
    end if;

    if coalesce(interlock.check_word(p_evidence -> 'source'), '')
        !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'
        or p_evidence ->> 'source' in ('api', 'button', 'schedule',
            'backfill', 'rerun', 'check')
    then
        return 'needs "source", the source at which the provider''s webhooks '
            'come in';
    end if;

    for r in
        select x.key, x.value from json_each(p_evidence) x
        where x.key in ('each', 'ref')
    loop
        v_bad := interlock.check_pointer(r.value);
        if v_bad is not null then
            return format('has "%s", which %s', r.key, v_bad);
        end if;
    end loop;

    if coalesce(json_typeof(p_evidence -> 'match'), '') <> 'object'
        or (select count(*) <> 1 or bool_or(x.key not in ('effect_id',
                'idempotency_key', 'provider_ref')
                or interlock.check_pointer(x.value) is not null)
            from json_each(case json_typeof(p_evidence -> 'match')
                when 'object' then p_evidence -> 'match' else '{}' end) x)
    then
        return 'needs "match", one of effect_id, idempotency_key, '
            'provider_ref with a pointer to it';
    end if;

    if p_evidence -> 'confirmed' is null and p_evidence -> 'failed' is null
    then
        return 'needs "confirmed" or "failed": which events say so';
    end if;

    for r in
        select x.key, x.value from json_each(p_evidence) x
        where x.key in ('confirmed', 'failed')
    loop
        if json_typeof(r.value) <> 'object'
            or exists (select from json_object_keys(r.value) y (key)
                       where y.key not in ('pointer', 'equals'))
            or interlock.check_pointer(r.value -> 'pointer') is not null
            or coalesce(json_typeof(r.value -> 'equals'), '') <> 'array'
            or r.value -> 'pointer' is null
            or json_array_length(case json_typeof(r.value -> 'equals')
                when 'array' then r.value -> 'equals' else '[]' end)
                not between 1 and 20
        then
            return format('needs in "%s" a "pointer" and "equals", an array '
                'of 1 to 20 values', r.key);
        end if;
    end loop;

    return null;
end
$$;

-- evidence_from(tenant, kind, evidence): which sources that effect kind
-- learns from, from now on.  The caller holds its row.
create or replace function interlock.evidence_from(
    p_tenant int, p_kind text, p_evidence text)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    delete from interlock.evidence_sources s
    where s.tenant = p_tenant and s.effect_kind = p_kind;

    insert into interlock.evidence_sources (tenant, source, effect_kind)
    select distinct p_tenant, x.value ->> 'source', p_kind
    from json_array_elements(interlock.json_array(p_evidence::json)) x;
end
$$;

-- json_array(value): the value, or an array of it alone; null: an empty one.
create or replace function interlock.json_array(p_value json)
returns json
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case coalesce(json_typeof(p_value), 'null')
        when 'array' then p_value
        when 'null' then '[]'::json
        else json_build_array(p_value) end
$$;

-- json_at(value, pointer): what an RFC 6901 pointer points at, or null.
create or replace function interlock.json_at(p_value json, p_pointer text)
returns json
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case when p_pointer = '' then p_value
        else p_value #> (
            select array_agg(replace(replace(x.part, '~1', '/'), '~0', '~')
                order by x.i)
            from unnest(string_to_array(substr(p_pointer, 2), '/'))
                with ordinality x (part, i)) end
$$;

-- evidence_says(event, rule): does the event answer the rule {pointer,
-- equals}?
create or replace function interlock.evidence_says(p_event json, p_rule json)
returns boolean
language sql immutable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select coalesce(bool_or(json_typeof(x.value) = json_typeof(v.value)
        and x.value #>> '{}' = v.value #>> '{}'), false)
    from (select interlock.json_at(p_event, p_rule ->> 'pointer')) v (value),
        json_array_elements(p_rule -> 'equals') x
$$;

-- evidence_read(evidence, body): what a webhook's body says by these rules,
-- at most 1000 events of it; nothing if it is no JSON that can be read.  One
-- subtransaction: for what is off the way of every caller.
create or replace function interlock.evidence_read(
    p_evidence json, p_body bytea)
returns interlock.evidence[]
language plpgsql immutable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_body   json;
    v_event  json;
    v_how    text;
    v_id     text;
    v_out    interlock.evidence[] := '{}';
    o        interlock.evidence;
begin
    v_body := convert_from(p_body, 'UTF8')::json;

    for v_event in
        select x.value from json_array_elements(interlock.json_array(
            interlock.json_at(v_body, coalesce(p_evidence ->> 'each', ''))))
            x
        limit 1000
    loop
        o := null;
        o.said := case
            when interlock.evidence_says(v_event, p_evidence -> 'confirmed')
            then 'confirmed'
            when interlock.evidence_says(v_event, p_evidence -> 'failed')
            then 'failed' end;
        continue when o.said is null;

        select x.key, interlock.json_at(v_event, x.value) #>> '{}'
        into v_how, v_id
        from json_each_text(p_evidence -> 'match') x;

        o.provider_ref := left(interlock.json_at(v_event,
            p_evidence ->> 'ref') #>> '{}', 1024);
        o.by_key := v_how = 'idempotency_key';

        if v_how = 'provider_ref' then
            o.provider_ref := left(v_id, 1024);
        elsif v_how = 'effect_id' and v_id
            ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
        then
            o.effect_id := v_id::uuid;
        elsif v_how = 'idempotency_key' and v_id
            ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-[1-9][0-9]{0,8}$'
        then
            o.effect_id := left(v_id, 36)::uuid;
            o.round := substr(v_id, 38)::int;
        else
            continue;
        end if;

        v_out := v_out || o;
    end loop;

    return v_out;

exception when data_exception or statement_too_complex then
    return '{}';
end
$$;

-- effects_evidence(limit): who: the sweeper of every interlockd.
-- Looks into the webhooks that were noted, at most limit of them, and tells
-- the effects that they are about.
-- Locks: rows of evidence_queue, skipping those that another one looks into;
-- then works in key order and effects in theirs, waiting; last limit groups.
-- Answers: one row a webhook that was told to an effect or more.
create or replace function interlock.effects_evidence(p_limit int)
returns table (tenant int, effect_id uuid, job_id uuid, wake_kinds text[],
    ended_jobs uuid[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_tenant  int[];
    v_job     uuid[];
    v_source  text[];
    v_word    interlock.evidence[] := '{}';
    v_wten    int[] := '{}';
    v_wjob    uuid[] := '{}';
    v_some    interlock.evidence[];
    v_group   text[] := '{}';
    v_gten    int[] := '{}';
    g         record;
    r         record;
begin
    perform set_config('synchronous_commit', 'on', true);

    with taken as (
        delete from interlock.evidence_queue q
        where q.ctid = any (array(
            select x.ctid from interlock.evidence_queue x
            order by x.id limit p_limit
            for update skip locked))
        returning q.tenant, q.job_id, q.source)
    select array_agg(t.tenant), array_agg(t.job_id), array_agg(t.source)
    into v_tenant, v_job, v_source
    from taken t;

    for r in
        select u.tenant, u.job, p.payload, k.name, x.value as rule
        from unnest(v_tenant, v_job, v_source) u (tenant, job, source)
        cross join lateral (
            select y.payload from interlock.payloads y
            where y.tenant = u.tenant and y.job_id = u.job
            limit 1) p
        join interlock.evidence_sources s on s.tenant = u.tenant
            and s.source = u.source
        cross join lateral interlock.effect_kind_row(s.tenant,
            s.effect_kind) k
        cross join lateral json_array_elements(interlock.json_array(
            k.evidence::json)) x
        where x.value ->> 'source' = u.source
    loop
        v_some := interlock.evidence_of(r.tenant, r.name,
            interlock.evidence_read(r.rule, r.payload));
        v_word := v_word || v_some;
        v_wten := v_wten
            || array_fill(r.tenant, array[cardinality(v_some)]);
        v_wjob := v_wjob || array_fill(r.job, array[cardinality(v_some)]);
    end loop;

    perform interlock.effects_hold(v_wten, array(
        select x.effect_id from unnest(v_word) with ordinality x (effect_id,
            round, provider_ref, said, by_key, by_ref, detail, i)
        order by x.i));

    for i in 1 .. cardinality(v_word) loop
        select * into g from interlock.evidence_tell(v_wten[i], v_wjob[i],
            v_word[i]);
        v_group := v_group || g.groups;
        v_gten := v_gten
            || array_fill(v_wten[i], array[cardinality(g.groups)]);

        tenant := v_wten[i];
        effect_id := v_word[i].effect_id;
        job_id := v_wjob[i];
        wake_kinds := g.wake_kinds;
        ended_jobs := g.ended_jobs;
        return next;
    end loop;

    perform interlock.groups_settle(v_gten, v_group);
end
$$;

-- evidence_of(tenant, kind, words): those that are about an effect of that
-- kind, each with the effect that it is about.  A reference that several
-- effects have says of none of them which one is meant: it is noted at each
-- (of the newest ten), with why it settles nothing.
create or replace function interlock.evidence_of(
    p_tenant int, p_kind text, p_word interlock.evidence[])
returns interlock.evidence[]
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_out  interlock.evidence[] := '{}';
    v_id   uuid;
    v_ids  uuid[];
    o      interlock.evidence;
begin
    foreach o in array p_word loop
        if o.effect_id is null then
            v_ids := array(
                select e.id from interlock.effects e
                where e.tenant = p_tenant and e.provider_ref = o.provider_ref
                    and e.kind = p_kind
                order by e.created_at desc limit 10);
            o.by_ref := true;
        else
            v_ids := array(
                select e.id from interlock.effects e
                where e.tenant = p_tenant and e.id = o.effect_id
                    and e.kind = p_kind);
        end if;

        foreach v_id in array v_ids loop
            o.effect_id := v_id;
            if cardinality(v_ids) > 1 then
                o.detail := 'other effects have this reference, too';
            end if;
            v_out := v_out || o;
        end loop;
    end loop;

    return v_out;
end
$$;

-- evidence_tell(tenant, job, o): tells one effect, which is locked, what a
-- webhook says of it.  That it happened settles it.  That it did not settles
-- it only where it is unknown and the word covers all sends of its round:
-- there is one, or the provider says so of their common key; a charge that
-- was made and refunded, or a mail that bounced later, is no contradiction.
-- If it comes while the send is under way, the send's end uses it (no_round).
-- What names no round is a no to the present one only if that is the first,
-- or its reference is of it; what names one that was never sent says nothing
-- of any.
create or replace function interlock.evidence_tell(
    p_tenant int, p_job uuid, o interlock.evidence, out ended_jobs uuid[],
    out wake_kinds text[], out groups text[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    e        interlock.effects;
    w        interlock.effect_word;
    v_state  text;
    v_no     boolean;
begin
    ended_jobs := '{}';
    wake_kinds := '{}';
    groups := '{}';

    select * into strict e from interlock.effects x
    where x.tenant = p_tenant and x.id = o.effect_id;

    v_state := e.state;
    v_no := coalesce(o.round = e.round, e.round = 1 or o.by_ref)
        and (interlock.effect_sole(e) or o.by_key);
    if o.round > e.round then
        o.detail := format('round %s was never sent', o.round);
    end if;

    w.said := o.said;
    w.provider_ref := o.provider_ref;
    w.detail := format('webhook, job %s', p_job) || coalesce(': ' || o.detail,
        '');

    if o.detail is not null then
        perform interlock.effect_note(e, e.state, false, 'evidence', w);
    elsif o.said = 'confirmed' then
        e := interlock.effect_confirm(e, coalesce(o.round, e.confirmed_round,
            e.round), 'evidence', w);
    elsif e.state in ('unknown', 'needs_human') and v_no then
        e := interlock.effect_fail(e, 'evidence', w);
    else
        if e.state = 'intended' and v_no then
            e.no_round := e.round;
            perform interlock.effect_store(e);
        end if;
        perform interlock.effect_note(e, e.state, false, 'evidence', w);
    end if;

    if v_state not in ('confirmed', 'failed')
        and e.state in ('confirmed', 'failed')
    then
        select x.ended_jobs, x.wake_kinds, x.groups
        into ended_jobs, wake_kinds, groups
        from interlock.effects_go_on(e.tenant, e.work_key) x;
    end if;
end
$$;

revoke all on function interlock.evidence_trouble(json) from public;
revoke all on function interlock.evidence_from(int, text, text) from public;
revoke all on function interlock.json_array(json) from public;
revoke all on function interlock.json_at(json, text) from public;
revoke all on function interlock.evidence_says(json, json) from public;
revoke all on function interlock.evidence_read(json, bytea) from public;
revoke all on function interlock.effects_evidence(int) from public;
revoke all on function interlock.evidence_of(int, text,
    interlock.evidence[]) from public;
revoke all on function interlock.evidence_tell(int, uuid,
    interlock.evidence) from public;
grant execute on function interlock.effects_evidence(int)
    to interlock_service;
