-- 01_kind_row.sql: how a kind is read; before the files that use it.

-- kind_row(tenant, name): the present version of a kind that is not deleted;
-- helper of the kind_* functions.  Locks: none.
create or replace function interlock.kind_row(p_tenant int, p_name text)
returns setof interlock.kind_versions
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    return query
    select v.*
    from interlock.kinds k
    join interlock.kind_versions v
        on v.tenant = k.tenant and v.name = k.name and v.version = k.version
    where k.tenant = p_tenant and k.name = p_name and not k.deleted;
end $$;

-- effect_scope_of(effect_scope, when_completed): whose effects are the same
-- effect: the work's (key and version), or the job's with its retries and
-- reruns.  A kind that does not say has the work's if a result counts as the
-- work done.
create or replace function interlock.effect_scope_of(
    p_scope text, p_when text)
returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return coalesce(p_scope,
        case p_when when 'return' then 'work' else 'job' end);
end $$;

-- hold_of(hold, overlap, when_completed, on_busy, decision): for how many
-- milliseconds an edge may answer repeats of a request that got this decision
-- by itself: the kind's hold where they would be skipped as things stand, else
-- null.  Never where each request is to be its own job.
create or replace function interlock.hold_of(
    p_hold int, p_overlap text, p_when text, p_busy text, p_decision text)
returns int
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when p_overlap in ('allow', 'buffer_all') or p_busy = 'error'
            then null
        when p_decision = 'skipped'
            or (p_decision in ('accepted', 'buffered', 'replaced')
                and (p_overlap = 'skip' or p_when = 'return'))
            or (p_decision = 'buffered' and p_overlap = 'buffer_first')
            then nullif(p_hold * 1000, 0)
        end;
end $$;

-- kind_doc(v): the JSON object that the API shows.
create or replace function interlock.kind_doc(v interlock.kind_versions)
returns text
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select json_build_object(
        'name', v.name, 'version', v.version,
        'overlap', v.overlap, 'overflow', v.overflow, 'on_busy', v.on_busy,
        'allow_fresh', v.allow_fresh, 'when_completed', v.when_completed,
        'result_ttl', v.result_ttl, 'idempotency_ttl', v.idempotency_ttl,
        'hold', v.hold,
        'lease_seconds', v.lease_seconds, 'max_runtime', v.max_runtime,
        'cancel_grace', v.cancel_grace, 'max_attempts', v.max_attempts,
        'retry_for', v.retry_for, 'backoff', v.backoff,
        'max_backoff', v.max_backoff, 'on_lost', v.on_lost,
        'result_check', v.result_check::json, 'max_waiting', v.max_waiting,
        'max_queued', v.max_queued, 'max_wait', v.max_wait,
        'limits', v.limits, 'priority', v.priority, 'order', v."order",
        'fair_by', v.fair_by, 'aging', v.aging,
        'effect_scope', v.effect_scope,
        'delivery_effects', v.delivery_effects,
        'max_payload', v.max_payload, 'key_template', v.key_template,
        'protects', v.protects, 'examples', v.examples::json,
        'alert_at', v.alert_at, 'stop_at', v.stop_at,
        'paused', interlock.pause_doc(v.tenant, 'kind', v.name))::text
$$;

revoke all on function interlock.kind_row(int, text) from public;
revoke all on function interlock.effect_scope_of(text, text) from public;
revoke all on function interlock.hold_of(int, text, text, text, text)
    from public;
revoke all on function interlock.kind_doc(interlock.kind_versions)
    from public;
