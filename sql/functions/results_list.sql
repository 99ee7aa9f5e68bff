-- results_list(tenant, prefix, limit, cursor): who: interlockd,
-- GET /v1/results?prefix=.  The published results of the work keys that start
-- with prefix, by key.  Locks: none.
-- Answers at most limit rows; next is the cursor from which the following
-- page goes on, the same in each row, null on the last page.
create or replace function interlock.results_list(
    p_tenant int, p_prefix text, p_limit int, p_cursor text)
returns table (doc text, next text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_limit  int := greatest(1, least(coalesce(p_limit, 50), 1000));
    v_keys   text[];
    v_next   text;
begin
    -- Keys are in the order of their bytes (the database's collation is C),
    -- so those with a prefix stand together.
    select array_agg(x.work_key order by x.work_key) into v_keys
    from (select w.work_key
          from interlock.works w
          where w.tenant = p_tenant
              and w.work_key >= coalesce(p_prefix, '')
              and w.work_key > coalesce(p_cursor, '')
              and w.work_key < coalesce(p_prefix, '') || U&'\+10FFFF'
              and starts_with(w.work_key, coalesce(p_prefix, ''))
              and w.published_revision is not null
          order by w.work_key
          limit v_limit + 1) x;

    if cardinality(v_keys) > v_limit then
        v_keys := v_keys[:v_limit];
        v_next := v_keys[v_limit];
    end if;

    return query
    select r.doc, v_next
    from unnest(v_keys) with ordinality k (work_key, n)
    cross join lateral interlock.work_result(p_tenant, k.work_key, null) r
    order by k.n;
end
$$;

revoke all on function interlock.results_list(int, text, int, text)
    from public;
grant execute on function interlock.results_list(int, text, int, text)
    to interlock_service;
