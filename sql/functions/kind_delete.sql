-- kind_delete(tenant, name): who: interlockd, DELETE /v1/kinds/{name}.
-- Locks: the kind's row (FOR UPDATE).  Answers: one row, problem null if
-- done.  The name stays taken and its versions stay: a job that was admitted
-- a moment ago runs to its end under its own version.
-- Refuses: kind-unknown; kind-in-use while a job of it is not ended.
create or replace function interlock.kind_delete(p_tenant int, p_name text)
returns table (problem text, detail text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
begin
    perform set_config('synchronous_commit', 'on', true);

    perform from interlock.kinds k
    where k.tenant = p_tenant and k.name = p_name and not k.deleted
    for update;

    if not found then
        return query select 'kind-unknown', format('no kind "%s"', p_name);
        return;
    end if;

    if exists (select from interlock.jobs_live j
               where j.tenant = p_tenant and j.kind = p_name
                   and j.status in ('queued', 'running', 'checking', 'held',
                       'parked'))
    then
        return query select 'kind-in-use',
            format('kind "%s" has jobs that are not ended', p_name);
        return;
    end if;

    update interlock.kinds k set deleted = true
    where k.tenant = p_tenant and k.name = p_name;

    delete from interlock.pauses p
    where p.tenant = p_tenant and p.what = 'kind' and p.name = p_name;

    return query select null::text, null::text;
end
$$;

revoke all on function interlock.kind_delete(int, text) from public;
grant execute on function interlock.kind_delete(int, text)
    to interlock_service;
