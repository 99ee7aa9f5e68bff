-- history.sql: history is kept in parts, a week each (022_history.sql).

-- history_ahead(): makes the parts of this week and the four to come, so that
-- what ends finds its own.  Helper of prune, which comes by every few minutes;
-- nearly always there is nothing to do.
-- Locks: those of history_part, and for them it waits a moment only: whoever
-- reads old history for long is let be, and the next one tries again.
create or replace function interlock.history_ahead() returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set lock_timeout = '100ms'
as $$
declare
    v_week  timestamptz := date_trunc('week', clock_timestamp(), 'UTC');
begin
    for n in 0 .. 4 loop
        perform interlock.history_part('jobs_ended', 'id',
            v_week + make_interval(weeks => n));
    end loop;
exception
    when lock_not_available or deadlock_detected then
        null;
end
$$;

revoke all on function interlock.history_ahead() from public;
