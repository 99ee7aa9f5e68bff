-- tenant_create(name): who: the administrator's commands, as owner.
-- Locks: the new row.  Answers: the tenant's number, made if missing.
-- Refuses: a name that is none (check constraint).
create or replace function interlock.tenant_create(p_name text) returns int
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_id  int;
begin
    perform set_config('synchronous_commit', 'on', true);

    select t.id into v_id from interlock.tenants t where t.name = p_name;
    if found then
        return v_id;
    end if;

    insert into interlock.tenants (name) values (p_name)
    on conflict (name) do nothing
    returning id into v_id;

    if v_id is null then
        select t.id into strict v_id
        from interlock.tenants t where t.name = p_name;
    end if;

    return v_id;
end
$$;

revoke all on function interlock.tenant_create(text) from public;
