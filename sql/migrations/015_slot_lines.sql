-- 015_slot_lines.sql: slots that wait for room stand in lines; and what jobs
-- are known to be whose work.

-- A line of slots that wait for room, tried from its front.
--   lane    '': all that the schedule's kind, or the tenant, had no room for;
--           else a work key, which itself was refused
--   try_at  when its front is tried next
--   tries   how often that was in vain, one after the other
--   step    how many of its front are tried at once
create table interlock.slot_lines (
    tenant    int not null,
    schedule  text not null,
    lane      text not null,
    reason    text not null,
    try_at    timestamptz not null,
    tries     int not null default 0 check (tries >= 0),
    step      int not null default 1 check (step >= 1),
    primary key (tenant, schedule, lane)
) with (fillfactor = 70);

create index slot_lines_try on interlock.slot_lines (tenant, schedule,
    try_at) where try_at is not null;

-- When the first of its lines is tried next; null: it has none.
alter table interlock.schedules add column try_at timestamptz;
create index schedules_try on interlock.schedules (try_at)
    where try_at is not null;

-- slots: the line in which it stands, instead of a time of its own.
alter table interlock.slots drop constraint slots_valid;
drop function interlock.slots_valid(text, text, uuid, timestamptz,
    timestamptz, timestamptz);
alter table interlock.slots add column lane text;

insert into interlock.slot_lines (tenant, schedule, lane, reason, try_at)
select x.tenant, x.schedule, '', min(x.reason), clock_timestamp()
from interlock.slots x where x.try_at is not null
group by x.tenant, x.schedule;
update interlock.schedules s set try_at = x.try_at
from interlock.slot_lines x
where s.tenant = x.tenant and s.name = x.schedule;
update interlock.slots set lane = '' where try_at is not null;

drop index interlock.slots_try;
alter table interlock.slots drop column try_at;
create index slots_line on interlock.slots (tenant, schedule, lane, slot_at,
    subject) where lane is not null;

create function interlock.slots_valid(
    state text, reason text, job_id uuid, lane text, check_at timestamptz,
    done_at timestamptz)
returns boolean
language plpgsql immutable
as $$
begin
    return case
        when state not in ('due', 'waiting', 'admitted', 'skipped', 'run')
        then interlock.refuse_row('slots', 'no such state')
        when state in ('admitted', 'run') and job_id is null
        then interlock.refuse_row('slots', 'what was admitted has its job')
        when state in ('waiting', 'skipped') and reason is null
        then interlock.refuse_row('slots',
            'a slot that waits or is skipped has its reason')
        when (lane is not null) <> (state = 'waiting'
            and reason <> 'approval')
        then interlock.refuse_row('slots',
            'what waits for room stands in a line, nothing else does')
        when (state = 'run') <> (done_at is not null)
        then interlock.refuse_row('slots',
            'a slot has run once its work is done')
        when check_at is not null and state in ('skipped', 'run')
        then interlock.refuse_row('slots',
            'what is skipped or done is looked at no more')
        else true end;
end
$$;

revoke all on function interlock.slots_valid(text, text, uuid, text,
    timestamptz, timestamptz) from public;

alter table interlock.slots add constraint slots_valid
    check (interlock.slots_valid(state, reason, job_id, lane, check_at,
        done_at));

-- A slot on its way: what may be line too (it joins one, and is not
-- submitted); lane is where it stands, or is to.
alter type interlock.slot_try drop attribute dated;
alter type interlock.slot_try add attribute lane text;

-- Which slot, or date, a job was made for.
create index schedule_plan_items_work on interlock.schedule_plan_items
    (tenant, work_key, job_id) where job_id is not null;
create index schedule_plans_of on interlock.schedule_plans (tenant, schedule,
    created_at) where schedule is not null;
create index jobs_reruns on interlock.jobs (tenant, rerun_of, created_at)
    where rerun_of is not null;

-- An item has the definition that expected it, and the job that it repeats.
alter table interlock.schedule_plan_items
    add column version int, add column rerun_of uuid;

drop function if exists interlock.slot_dated(interlock.schedule_versions);
drop function if exists interlock.slot_answer(interlock.submit_answer, boolean);
drop function if exists interlock.slot_work(interlock.slots);
drop function if exists interlock.slots_again(timestamptz, int);
drop function if exists interlock.slot_works(int, text, date, timestamptz);
drop function if exists interlock.work_again(int, text, bytea, text, text);
drop function if exists interlock.rerun_trouble(int, text);
