-- 017_retention.sql: until when is kept what is no more needed (prune).

-- Functions that gain a parameter: they are made anew by their files.
drop function if exists interlock.date_works(interlock.schedule_versions,
    date, text[]);

-- A plan that nobody began goes a day after its hour; one that was is kept as
-- long as the slots for which it ran something.
alter table interlock.schedule_plans
    add column prune_at timestamptz not null
        default clock_timestamp() + interval '25 hours';
update interlock.schedule_plans p
set prune_at = p.created_at + interval '400 days'
where exists (select from interlock.actions a
              where a.tenant = p.tenant and a.call_id = p.id);
create index schedule_plans_prune on interlock.schedule_plans (prune_at)
    where prune_at is not null;

alter table interlock.redrive_plans
    add column prune_at timestamptz not null
        default clock_timestamp() + interval '25 hours';
update interlock.redrive_plans p
set prune_at = p.created_at + interval '400 days'
where exists (select from interlock.redrive_jobs j
              where j.tenant = p.tenant and j.plan_id = p.id
                  and j.outcome is not null);
create index redrive_plans_prune on interlock.redrive_plans (prune_at)
    where prune_at is not null;

-- What is looked for by its age.
create index slots_prune on interlock.slots (slot_at) where check_at is null;
create index schedule_skips_prune on interlock.schedule_skips (to_at)
    where to_at is not null;
create index alert_events_prune on interlock.alert_events
    ((coalesce(delivered_at, dropped_at)))
    where coalesce(delivered_at, dropped_at) is not null;
create index alert_events_opened on interlock.alert_events
    (tenant, opened_event) where opened_event is not null;
