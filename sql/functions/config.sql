-- config_facts(tenant): who: interlockd, GET /v1/config, which puts its own
-- version, settings and keys beside it.
-- Locks: none.  Answers: one row.  doc {database {ok, detail, epoch,
-- schema_version, server_version, synchronous_commit, fsync,
-- full_page_writes}, migrations [{id, name, applied_at}], sources [{name,
-- requests_24h, rejected_24h, paused}] (that had requests in the last 24
-- hours, or are paused), edges {zones, heard_at, received, missing}}.
create or replace function interlock.config_facts(p_tenant int)
returns table (doc text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_since  timestamptz := clock_timestamp() - interval '24 hours';
begin
    doc := json_build_object(
        'database', (
            select json_build_object('ok', r.ok, 'detail', r.detail,
                'epoch', r.epoch, 'schema_version', r.schema_version,
                'server_version', current_setting('server_version'),
                'synchronous_commit', current_setting('synchronous_commit'),
                'fsync', current_setting('fsync'),
                'full_page_writes', current_setting('full_page_writes'))
            from interlock.ready() r),
        'migrations', (
            select json_agg(json_build_object('id', m.id, 'name', m.name,
                'applied_at', interlock.ts(m.applied_at)) order by m.id)
            from interlock.migrations m),
        'sources', (
            select coalesce(json_agg(json_build_object('name', s.name,
                'requests_24h', s.n, 'rejected_24h', s.rejected,
                'paused', interlock.pause_doc(p_tenant, 'source', s.name))
                order by s.name), '[]')
            from (select x.name, sum(x.n) as n, sum(x.rejected) as rejected
                  from (select d.source as name, d.n,
                            case d.decision when 'rejected' then d.n else 0
                            end as rejected
                        from interlock.kinds k
                        cross join lateral (
                            select y.* from interlock.series_decisions y
                            where y.tenant = k.tenant and y.kind = k.name
                                and y.minute >= v_since) d
                        where k.tenant = p_tenant
                        union all
                        select p.name, 0, 0 from interlock.pauses p
                        where p.tenant = p_tenant and p.what = 'source') x
                  group by x.name) s),
        'edges', (
            select json_build_object('zones', count(*),
                'heard_at', interlock.ts(max(z.changed_at)))
            from interlock.edge_zones z
            where z.zone <> '00000000-0000-0000-0000-000000000000')::jsonb
            || (select jsonb_object_agg(case e.name
                    when 'edge_audit_received_total' then 'received'
                    else 'missing' end, e.value::bigint)
                from interlock.edge_stats() e))::text;
    return next;
end
$$;

revoke all on function interlock.config_facts(int) from public;
grant execute on function interlock.config_facts(int) to interlock_service;
