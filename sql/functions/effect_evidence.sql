-- effect_evidence.sql: what a provider's own webhooks say of effects.

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
            'backfill', 'rerun')
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

revoke all on function interlock.evidence_trouble(json) from public;
