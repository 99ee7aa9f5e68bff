-- roles.sql: the three roles of interlock.
--
-- Run by an administrator (a superuser of the cluster) before the first
-- migration; running it again changes nothing.
--
--   interlock_owner    owns the database and the schema; migrates
--   interlock_service  interlockd: may execute the listed functions only
--   interlock_audit    reports: may read the views only
--
-- No password is set here: use peer or certificate authentication, or set
-- one by \password.

do $$
declare
    v_role text;
begin
    foreach v_role in array
        array['interlock_owner', 'interlock_service', 'interlock_audit']
    loop
        if not exists (select from pg_roles where rolname = v_role) then
            execute format('create role %I login nosuperuser nocreatedb '
                           'nocreaterole noreplication noinherit', v_role);
        end if;
    end loop;
end
$$;

-- Array parameters make plpgsql choose custom plans for ever, and planning
-- then costs more than running.
alter role interlock_service set plan_cache_mode = 'force_generic_plan';
alter role interlock_service set jit = off;
alter role interlock_service set default_transaction_isolation
    = 'read committed';

-- Below the backend's own deadline, so that the server gives up first and the
-- outcome is known.
alter role interlock_service set lock_timeout = '5s';
alter role interlock_service set statement_timeout = '9s';
alter role interlock_service set idle_in_transaction_session_timeout = '10s';
alter role interlock_service set client_min_messages = 'warning';

alter role interlock_audit set default_transaction_read_only = on;
alter role interlock_audit set statement_timeout = '60s';
