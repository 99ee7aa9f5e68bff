-- ready(): who: interlockd, at start, per new connection and for /readyz.
-- Locks: none.  Answers: one row; ok only if an acknowledged commit would
-- survive a crash of this server.  epoch names this database and its
-- timeline: when it changes (failover, restore, another database), edges drop
-- what they remember.
-- The timeline comes from the name of the current WAL file, for the control
-- file learns of a promotion only at the next checkpoint.
create or replace function interlock.ready()
returns table (ok boolean, detail text, epoch text, schema_version int)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
declare
    v_detail    text;
    v_id        uuid;
    v_system    bigint;
    v_timeline  text := '';
    v_version   int;
begin
    select coalesce(max(m.id), 0) into v_version from interlock.migrations m;
    select i.id into v_id from interlock.installation i;
    select s.system_identifier into v_system from pg_control_system() s;

    if pg_is_in_recovery() then
        v_detail := 'the database is a standby';
    else
        v_timeline := ltrim(left(pg_walfile_name(pg_current_wal_lsn()), 8),
                            '0');
        if current_setting('fsync') <> 'on' then
            v_detail := 'fsync is off';
        elsif current_setting('full_page_writes') <> 'on' then
            v_detail := 'full_page_writes is off';
        elsif current_setting('transaction_read_only') = 'on' then
            v_detail := 'the session is read-only';
        end if;
    end if;

    return query select v_detail is null, coalesce(v_detail, 'ready'),
        left(md5(v_system || '/' || v_id), 16) || '-' || v_timeline,
        v_version;
end
$$;

revoke all on function interlock.ready() from public;
grant execute on function interlock.ready() to interlock_service;
