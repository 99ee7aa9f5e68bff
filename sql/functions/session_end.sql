-- session_end(hash): who: interlockd, for a logout.
-- Locks: the session's row.  Answers: true if it was there until now.
create or replace function interlock.session_end(p_hash bytea)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    perform set_config('synchronous_commit', 'on', true);

    delete from interlock.sessions s where s.hash = p_hash;

    return found;
end
$$;

revoke all on function interlock.session_end(bytea) from public;
grant execute on function interlock.session_end(bytea) to interlock_service;
