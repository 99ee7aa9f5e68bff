-- action_made(tenant, call): whether the operator's call of that id was
-- carried out already: then only the answer to its COMMIT was lost, and it
-- gets it again, made from what is there now.  Helper of all that write a row
-- into actions, who ask once they hold the lock under which they act, and
-- give the row the same id; null is a call that is not made again.
create or replace function interlock.action_made(p_tenant int, p_call uuid)
returns boolean
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select exists (select from interlock.actions a
                   where a.tenant = p_tenant and a.call_id = p_call)
$$;

revoke all on function interlock.action_made(int, uuid) from public;
