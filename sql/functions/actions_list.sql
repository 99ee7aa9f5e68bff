-- actions_list(…): who: interlockd, GET /v1/actions.
-- What people of a tenant did, newest first (by id), as the filters say that
-- are not null: what (job_cancel, …), by (the name that they gave, or that of
-- their token), since (included), until (not included).
-- Locks: none.  Answers a page, see 05_list_scan.sql; a cursor is an action's
-- number, and one that is none gives no row.
create or replace function interlock.actions_list(
    p_tenant int, p_what text, p_by text, p_since timestamptz,
    p_until timestamptz, p_limit int, p_cursor text)
returns table (doc text, next text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    v_span   int := interlock.list_span();
    v_limit  int := greatest(1, least(p_limit, 1000));
    v_from   bigint := 9223372036854775807;
    v_ids    bigint[];
    v_next   bigint;
begin
    if p_cursor is not null then
        if p_cursor !~ '^[0-9]{1,18}$' then
            return;
        end if;
        v_from := p_cursor::bigint;
    end if;

    select array_agg(y.id order by y.id desc) into v_ids
    from (select s.id
          from (select x.* from interlock.actions x
                where x.tenant = p_tenant and x.id < v_from
                order by x.id desc
                limit v_span) s
          where (p_what is null or s.what = p_what)
              and (p_by is null or s.requested_by = p_by
                   or s.token_name = p_by)
              and (p_since is null or s.at >= p_since)
              and (p_until is null or s.at < p_until)
          limit v_limit + 1) y;

    if cardinality(v_ids) > v_limit then
        v_ids := v_ids[:v_limit];
        v_next := v_ids[v_limit];
    else
        select x.id into v_next from interlock.actions x
        where x.tenant = p_tenant and x.id < v_from
        order by x.id desc
        offset v_span - 1 limit 1;
    end if;

    return query
    select a.doc, null::text
    from unnest(v_ids) with ordinality k (id, n)
    cross join lateral (
        select interlock.action_doc(x) as doc from interlock.actions x
        where x.tenant = p_tenant and x.id = k.id
        limit 1) a
    order by k.n;

    if v_next is not null then
        return query select null::text, v_next::text;
    end if;
end
$$;

-- action_doc(a): an action as lists show it: the audit's entry of it, and what
-- it was about, as far as that is one job, one effect or one work.
create or replace function interlock.action_doc(a interlock.actions)
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_key     text := a.work_key;
    v_job     uuid;
    v_effect  uuid;
begin
    if a.what in ('inbox_assign', 'inbox_dismiss') then
        if a.detail ->> 'id' like 'job:%' then
            v_job := interlock.list_uuid(a.target);
        elsif a.detail ->> 'id' like 'effect:%' then
            v_effect := interlock.list_uuid(a.target);
        end if;
    elsif a.what in ('job_cancel', 'job_decide', 'job_revoke', 'redrive',
        'work_rerun')
    then
        v_job := interlock.list_uuid(a.target);
    elsif a.what in ('effect_resolve', 'effect_check') then
        v_effect := interlock.list_uuid(a.target);
        select coalesce(v_key, x.work_key), x.job_id into v_key, v_job
        from interlock.effects x
        where x.tenant = a.tenant and x.id = v_effect;
    end if;

    return json_build_object(
        'action_id', a.id,
        'at', interlock.ts(a.at),
        'what', 'action',
        'action', a.what,
        'target', a.target,
        'work_key', v_key,
        'job_id', v_job,
        'effect_id', v_effect,
        'requested_by', a.requested_by,
        'reason', a.reason,
        'token_id', a.token_id,
        'token_name', a.token_name,
        'detail', a.detail)::text;
end
$$;

revoke all on function interlock.action_doc(interlock.actions) from public;
revoke all on function interlock.actions_list(int, text, text, timestamptz,
    timestamptz, int, text) from public;
grant execute on function interlock.actions_list(int, text, text,
    timestamptz, timestamptz, int, text) to interlock_service;
