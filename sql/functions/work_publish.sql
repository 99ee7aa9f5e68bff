-- work_publish(…): who: interlockd, POST /v1/works/{key}/publish.
-- Puts a revision forward by hand, an earlier one (restore) or one that did
-- not publish itself.  It takes a new fence of the key for itself: an attempt
-- that runs now, with a lower fence, keeps its result as a revision only.
-- The published version stays the highest that was ever published, so that
-- what is older than that stays unpublished too.
-- p_call: see action_made.
-- Locks: the work (FOR NO KEY UPDATE).
-- Answers: one row, problem null and doc the published result; publishing
-- what is published already changes nothing but is an action of its own.
-- Refuses: not-found (no such key, or no such revision).
create or replace function interlock.work_publish(
    p_tenant int, p_key text, p_revision int, p_requested_by text,
    p_reason text, p_token_id bigint, p_token_name text,
    p_call uuid default null)
returns table (problem text, detail text, doc text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    w         interlock.works;
    r         interlock.results;
    v_now     timestamptz;
    v_fence   bigint;
    v_action  bigint;
begin
    perform set_config('synchronous_commit', 'on', true);

    perform from interlock.works x
    where x.tenant = p_tenant and x.work_key = p_key
    for no key update;

    if interlock.action_made(p_tenant, p_call) then
        return query select null::text, null::text, x.doc
        from interlock.work_result(p_tenant, p_key, null) x;
        return;
    end if;

    v_now := clock_timestamp();
    select * into w from interlock.works x
    where x.tenant = p_tenant and x.work_key = p_key;
    if not found then
        return query select 'not-found', 'no such work key', null::text;
        return;
    end if;

    select * into r from interlock.results x
    where x.tenant = p_tenant and x.work_key = p_key
        and x.revision = p_revision;
    if not found then
        return query select 'not-found',
            format('this work key has no revision %s', p_revision),
            null::text;
        return;
    end if;

    select greatest(w.fence, t.fence_floor) + 1 into strict v_fence
    from interlock.tenants t where t.id = p_tenant;

    insert into interlock.actions (tenant, what, target, token_id,
        token_name, requested_by, reason, call_id, detail, work_key)
    values (p_tenant, 'work_publish', p_key, p_token_id, p_token_name,
        p_requested_by, p_reason, p_call, json_build_object(
            'revision', p_revision, 'before', w.published_revision,
            'fence', v_fence), p_key)
    returning id into v_action;

    insert into interlock.publications (tenant, work_key, fence, revision,
        action_id, at)
    values (p_tenant, p_key, v_fence, p_revision, v_action, v_now);

    update interlock.works x
    set fence = v_fence, published_fence = v_fence,
        published_revision = p_revision, published_at = v_now,
        published_version = greatest(x.published_version, r.version)
    where x.tenant = p_tenant and x.work_key = p_key;

    return query select null::text, null::text, x.doc
    from interlock.work_result(p_tenant, p_key, null) x;
end
$$;

revoke all on function interlock.work_publish(int, text, int, text, text,
    bigint, text, uuid) from public;
grant execute on function interlock.work_publish(int, text, int, text, text,
    bigint, text, uuid) to interlock_service;
