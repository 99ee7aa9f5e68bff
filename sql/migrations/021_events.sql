-- 021_events.sql: which transaction changed what a job shows (events_since).
--
-- A transaction's number, and not a time: with a snapshot it says exactly
-- what had not been seen yet, in whatever order transactions commit.

alter table interlock.jobs
    add column changed xid8 not null default pg_current_xact_id();

-- Progress is the lease's while a job runs, and so is this: set with what is
-- shown of it, not with each renewal.
alter table interlock.leases
    add column told xid8 not null default pg_current_xact_id();

-- Of jobs that run, the leases tell: they are few, and so a claim, which
-- writes that row anyway, has nothing more to write.
create index jobs_changed on interlock.jobs (tenant, changed, id)
    where changed is not null and status <> 'running';

-- The calls that change many jobs a second set it themselves; for all others
-- this does, so that none can forget it.
create function interlock.job_changed() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    new.changed := pg_current_xact_id();
    return new;
end
$$;

revoke all on function interlock.job_changed() from public;

create trigger jobs_changed before update on interlock.jobs
    for each row
    when (new.changed = old.changed)
    execute function interlock.job_changed();
