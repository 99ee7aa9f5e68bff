-- effects_of_job.sql: what jobs and keys ask about effects.
--
-- Locks: effects come after works and leases and before limit groups, which
-- are the last thing that any transaction waits for.

-- effects_end(tenant, l, j): called by attempt_end for every end of an
-- attempt, whatever ends it; its caller holds the work and the lease.  Makes
-- the sends of this attempt that have no outcome unknown.  Answers whether
-- the job may not run again yet: it has unsettled effects that its own retry
-- may not repeat.
create or replace function interlock.effects_end(
    p_tenant int, l interlock.leases, j interlock.jobs)
returns boolean
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    return false;
end
$$;

-- effects_unsettled(tenant, j): the answer of effects_end, asked again for a
-- job that does not run: has it unsettled effects that its own retry may not
-- repeat?  The caller holds the work.  Changes nothing, locks nothing.
create or replace function interlock.effects_unsettled(
    p_tenant int, j interlock.jobs)
returns boolean
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
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
as $$
begin
    return false;
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
as $$
begin
    return '[]'::json;
end
$$;

-- effects_summary(tenant, key): the effects of a work key by their state, for
-- work_get.  Locks: none.
create or replace function interlock.effects_summary(
    p_tenant int, p_key text)
returns json
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    return '{}'::json;
end
$$;

-- audit_effects(tenant, key): entries of the audit's time line; doc has at
-- least {at, what}.  Locks: none.
create or replace function interlock.audit_effects(
    p_tenant int, p_key text)
returns table (at timestamptz, doc json)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    return;
end
$$;

-- audit_effects_final(tenant, key): what the audit says first: confirmed is
-- an array of effects, open one of {what: "effect", id, state, since, why}.
-- Locks: none.
create or replace function interlock.audit_effects_final(
    p_tenant int, p_key text, out confirmed json, out open json)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    confirmed := '[]'::json;
    open := '[]'::json;
end
$$;

revoke all on function interlock.effects_end(int, interlock.leases,
    interlock.jobs) from public;
revoke all on function interlock.effects_unsettled(int, interlock.jobs)
    from public;
revoke all on function interlock.effects_hold_key(int, text, interlock.jobs)
    from public;
revoke all on function interlock.effects_of_scope(int, uuid) from public;
revoke all on function interlock.effects_summary(int, text) from public;
revoke all on function interlock.audit_effects(int, text) from public;
revoke all on function interlock.audit_effects_final(int, text) from public;
