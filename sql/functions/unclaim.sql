-- unclaim(tenants, attempts): who: interlockd, when the answer with the owner
-- token could not be written: the worker never had it.
-- Locks: works in key order, leases by id (owner_lock).
-- Answers one row each: ok false if the attempt has ended meanwhile.  The job
-- is ready as before, the attempt is not counted; the fence stays used.
create or replace function interlock.unclaim(
    p_tenant int[], p_attempt uuid[])
returns table (ord int, ok boolean, kind text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
declare
    r  record;
    l  interlock.leases;
    a  interlock.attempt_answer;
begin
    perform set_config('synchronous_commit', 'on', true);

    perform interlock.owner_lock(p_tenant, p_attempt);

    for r in
        select u.* from unnest(p_tenant, p_attempt) with ordinality
            as u (tenant, attempt, ord)
        order by u.ord
    loop
        select * into l from interlock.leases x
        where x.tenant = r.tenant and x.attempt_id = r.attempt;

        ord := r.ord;
        ok := found;
        kind := l.kind;

        if ok then
            a := interlock.attempt_end(l, 'unclaim', null, null, null, null,
                null, null, null, null, null, null);
        end if;

        return next;
    end loop;
end
$$;

revoke all on function interlock.unclaim(int[], uuid[]) from public;
grant execute on function interlock.unclaim(int[], uuid[])
    to interlock_service;
