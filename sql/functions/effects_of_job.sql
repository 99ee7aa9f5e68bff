-- effects_of_job.sql: what jobs and keys ask about effects.
--
-- Locks: effects come after works and leases and before limit groups, which
-- are the last thing that any transaction waits for.

-- effects_end(tenant, l): called by attempt_end for every end of an attempt
-- that has sends without an outcome, whatever ends it; its caller holds the
-- work and the lease, and has locked the effects of all the attempts that it
-- ends (effects_lock).  Makes these sends unknown.
create or replace function interlock.effects_end(
    p_tenant int, l interlock.leases)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    e  interlock.effects;
    s  interlock.sends;
begin
    perform interlock.effects_lock(array[p_tenant], array[l.attempt_id]);

    for s in
        select * from interlock.sends x
        where x.tenant = p_tenant and x.attempt_id = l.attempt_id
            and x.outcome is null
    loop
        select * into strict e from interlock.effects x
        where x.tenant = p_tenant and x.id = s.effect_id;
        perform interlock.send_over(e, s, 'end',
            'its attempt ended without a word of it');
    end loop;
end
$$;

-- effects_unsettled(tenant, j): may the job, of which no attempt is live any
-- more, not run again yet, for it has unsettled effects that its own retry may
-- not repeat?  It may repeat what its provider will know again by the same key.
-- The caller holds the work; the job is live.  Changes nothing, locks nothing.
create or replace function interlock.effects_unsettled(
    p_tenant int, j interlock.jobs)
returns boolean
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_scope  text;
    e        interlock.effects;
    k        interlock.effect_kind_versions;
begin
    select x.scope into v_scope from interlock.effect_scope_of(j) x;

    for e in
        select * from interlock.effects x
        where x.tenant = p_tenant and x.scope = v_scope
            and x.state in ('unknown', 'needs_human')
    loop
        if e.state = 'needs_human' then
            return true;
        end if;

        select * into strict k
        from interlock.effect_kind_row(e.tenant, e.kind);
        if not interlock.effect_repeatable(e, k, clock_timestamp()) then
            return true;
        end if;
    end loop;

    return false;
end
$$;

-- effects_hold_key(tenant, key, j): j stands first in the line of its key and
-- nothing is before it: does its effect scope hold an unsettled effect of an
-- attempt that has ended?  The caller holds the work.  Changes nothing, locks
-- nothing.
create or replace function interlock.effects_hold_key(
    p_tenant int, p_key text, j interlock.jobs)
returns boolean
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_scope  text;
begin
    select x.scope into v_scope from interlock.effect_scope_of(j) x;

    perform from interlock.effects e
    where e.tenant = p_tenant and e.scope = v_scope
        and e.state in ('unknown', 'needs_human')
    limit 1;
    return found;
end
$$;

-- effects_of_scope(tenant, job): the effects of the job's scope, for the
-- worker that claims it: a JSON array of {effect_id, name, kind, state,
-- provider_ref}, at most 100.  Locks: none.
create or replace function interlock.effects_of_scope(
    p_tenant int, p_job uuid)
returns json
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_scope  text;
    j        interlock.jobs;
begin
    select * into j from interlock.jobs x
    where x.tenant = p_tenant and x.id = p_job;
    if not found then
        return '[]'::json;
    end if;

    select x.scope into v_scope from interlock.effect_scope_of(j) x;

    return coalesce((
        select json_agg(json_build_object('effect_id', e.id, 'name', e.name,
            'kind', e.kind, 'state', e.state, 'provider_ref', e.provider_ref)
            order by e.name)
        from (select x.* from interlock.effects x
              where x.tenant = p_tenant and x.scope = v_scope
                  and x.name is not null
              order by x.name limit 100) e), '[]'::json);
end
$$;

-- effects_summary(tenant, key): the effects of a work key by their state, for
-- work_get: how many are in each.  Locks: none.
create or replace function interlock.effects_summary(
    p_tenant int, p_key text)
returns json
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return coalesce((
        select json_object_agg(x.state, x.n order by x.state)
        from (select e.state, count(*) as n from interlock.effects e
              where e.tenant = p_tenant and e.work_key = p_key
              group by e.state) x), '{}'::json);
end
$$;

-- audit_effects(tenant, key): entries of the audit's time line; doc has at
-- least {at, what}.  Locks: none.
create or replace function interlock.audit_effects(
    p_tenant int, p_key text)
returns table (at timestamptz, doc json)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    return query
    select h.at, interlock.history_doc(h, e)
    from (select x.* from interlock.effects x
          where x.tenant = p_tenant and x.work_key = p_key
          order by x.created_at, x.id) e
    cross join lateral (
        select y.* from interlock.effects_history y
        where y.tenant = e.tenant and y.effect_id = e.id
        order by y.id) h;
end
$$;

-- audit_effects_final(tenant, key): what the audit says first: confirmed is
-- an array of effects, open one of {what: "effect", id, state, since, why}.
-- Locks: none.
create or replace function interlock.audit_effects_final(
    p_tenant int, p_key text, out confirmed json, out open json)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    select coalesce(json_agg(interlock.effect_json(e)
            order by e.created_at, e.id)
            filter (where e.state = 'confirmed'), '[]'::json),
        coalesce(json_agg(json_build_object('what', 'effect', 'id', e.id,
                'name', e.name, 'state', e.state,
                'since', interlock.ts(e.changed_at),
                'why', interlock.effect_why(e))
            order by e.created_at, e.id)
            filter (where e.state in ('intended', 'unknown', 'needs_human')),
            '[]'::json)
    into confirmed, open
    from interlock.effects e
    where e.tenant = p_tenant and e.work_key = p_key;
end
$$;

revoke all on function interlock.effects_end(int, interlock.leases)
    from public;
revoke all on function interlock.effects_unsettled(int, interlock.jobs)
    from public;
revoke all on function interlock.effects_hold_key(int, text, interlock.jobs)
    from public;
revoke all on function interlock.effects_of_scope(int, uuid) from public;
revoke all on function interlock.effects_summary(int, text) from public;
revoke all on function interlock.audit_effects(int, text) from public;
revoke all on function interlock.audit_effects_final(int, text) from public;
