-- wake_send(node, messages): who: interlockd's notifier, over its own
-- connection, at most once a millisecond; never in a transaction that
-- decides anything: NOTIFY takes a lock on the whole database until its
-- commit is over, so this one does not wait for the disk.
-- Locks: none of ours.  Answers: nothing.  A message is lost without harm:
-- it only says where to look sooner.
create or replace function interlock.wake_send(p_node text,
                                               p_messages text[])
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_message text;
begin
    perform set_config('synchronous_commit', 'off', true);

    foreach v_message in array p_messages loop
        perform pg_notify('interlock_wake', p_node || ' ' || v_message);
    end loop;
end
$$;

revoke all on function interlock.wake_send(text, text[]) from public;
grant execute on function interlock.wake_send(text, text[])
    to interlock_service;
