-- 008_schedules.sql: schedules, the slots that they expect, and gaps.
--
-- The row of a schedule is the lock for everything about it: its state, its
-- slots, its gaps.  It comes before all other locks but that of a plan.

-- A cron expression: bit n of a mask is the value n; either: a day is due that
-- fits one of the day fields (else it must fit both).
create type interlock.cron as (
    minutes   bigint,
    hours     int,
    days      bigint,
    months    int,
    weekdays  int,
    either    boolean
);

-- What a schedule is now.
--   since       from when on its present version counts
--   scanned_to  every slot of it up to then is accounted for
--   next_at     its next slot; null: there is none any more
--   slot_at     the slot that is under way (next_at is the same): of its
--               subjects the first slot_n are done
--   skips       slots that were skipped, one after the other, up to now
--   trouble     what error the scanner met the last time, and until when it
--               leaves the schedule alone for it

create table interlock.schedules (
    tenant      int not null references interlock.tenants (id),
    name        text not null check (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    version     int not null check (version >= 1),
    deleted     boolean not null default false,
    paused      boolean not null default false,
    pause_note  text,
    since       timestamptz not null,
    scanned_to  timestamptz not null,
    next_at     timestamptz,
    slot_at     timestamptz,
    slot_n      int not null default 0,
    skips       int not null default 0,
    trouble     text,
    hold_until  timestamptz,
    created_at  timestamptz not null default clock_timestamp(),
    updated_at  timestamptz not null default clock_timestamp(),
    primary key (tenant, name)
) with (fillfactor = 50);

create index schedules_due on interlock.schedules (next_at)
    where next_at is not null;

-- Definitions.  A slot keeps the version under which it came up, so they are
-- never changed nor dropped.  list is the list of subjects; a version that
-- does not change them has that of the one before.

create table interlock.schedule_versions (
    tenant         int not null,
    name           text not null,
    version        int not null check (version >= 1),
    cron           text not null,
    zone           text not null,
    kind           text not null,
    work_key       text not null,
    payload        text not null default 'null',
    list           int not null default 1,
    subjects       int not null default 1 check (subjects >= 1),
    priority       int check (priority between -100 and 100),
    grace          int not null default 3600 check (grace >= 0),
    catch_up       text not null default 'latest'
                   check (catch_up in ('latest', 'all', 'skip')),
    catch_up_max   int not null default 100 check (catch_up_max >= 1),
    approve_after  int check (approve_after >= 0),
    gap            text not null default 'run_after'
                   check (gap in ('run_after', 'skip')),
    fold           text not null default 'first'
                   check (fold in ('first', 'second', 'both')),
    date_offset    int not null default 0,
    jitter         int not null default 0 check (jitter >= 0),
    start_at       timestamptz,
    end_at         timestamptz check (end_at > start_at),
    skip_alarm     int check (skip_alarm >= 1),
    masks          interlock.cron not null,
    created_at     timestamptz not null default clock_timestamp(),
    primary key (tenant, name, version),
    foreign key (tenant, name) references interlock.schedules (tenant, name)
);

create table interlock.schedule_subjects (
    tenant    int not null,
    name      text not null,
    list      int not null,
    n         int not null,
    subject   text not null,
    primary key (tenant, name, list, n)
);

create function interlock.slots_valid(
    state text, reason text, job_id uuid, try_at timestamptz,
    check_at timestamptz, done_at timestamptz)
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
        when (try_at is not null) <> (state = 'waiting'
            and reason <> 'approval')
        then interlock.refuse_row('slots',
            'what waits for room is tried again, nothing else is')
        when (state = 'run') <> (done_at is not null)
        then interlock.refuse_row('slots',
            'a slot has run once its work is done')
        when check_at is not null and state in ('skipped', 'run')
        then interlock.refuse_row('slots',
            'what is skipped or done is looked at no more')
        else true end;
end
$$;

revoke all on function interlock.slots_valid(text, text, uuid, timestamptz,
    timestamptz, timestamptz) from public;

-- One row an expected occurrence of a schedule for one subject, from its time
-- on.
--   state     due (while its transaction lasts), waiting (for room: reason
--             and try_at; for approval), admitted (job_id is, or answered
--             for, its work), skipped (reason), run (its work is done)
--   tries     how often its work was submitted
--   check_at  when the gap scanner looks at it next

create table interlock.slots (
    tenant         int not null,
    schedule       text not null,
    slot_at        timestamptz not null,
    subject        text not null,
    version        int not null,
    business_date  date not null,
    work_key       text not null,
    state          text not null,
    reason         text,
    job_id         uuid,
    tries          int not null default 0,
    try_at         timestamptz,
    check_at       timestamptz,
    done_at        timestamptz,
    created_at     timestamptz not null default clock_timestamp(),
    primary key (tenant, schedule, slot_at, subject),
    constraint slots_valid check (interlock.slots_valid(state, reason,
        job_id, try_at, check_at, done_at))
) with (fillfactor = 70);

create index slots_try on interlock.slots (try_at) where try_at is not null;
create index slots_check on interlock.slots (check_at)
    where check_at is not null;
create index slots_done on interlock.slots (tenant, schedule, done_at)
    where done_at is not null;
create index slots_date on interlock.slots (tenant, schedule, business_date,
    slot_at, subject) where business_date is not null;
create index slots_work on interlock.slots (tenant, work_key)
    where work_key is not null;

-- Slots that were skipped in a row, in one row: so that a month of minutes is
-- bounded work.  subjects is how many each of them has.
create table interlock.schedule_skips (
    tenant    int not null,
    schedule  text not null,
    to_at     timestamptz not null,
    id        bigint generated always as identity,
    from_at   timestamptz not null,
    version   int not null,
    slots     bigint not null check (slots >= 1),
    subjects  int not null check (subjects >= 1),
    reason    text not null,
    primary key (tenant, schedule, to_at, id)
) with (fillfactor = 50);

-- Slots without a successful completion after their grace time.
create table interlock.gaps (
    tenant         int not null,
    id             uuid not null,
    schedule       text not null,
    slot_at        timestamptz not null,
    subject        text not null,
    business_date  date not null,
    work_key       text not null,
    since          timestamptz not null,
    why            text not null,
    state          text not null
                   check (state in ('open', 'approved', 'dismissed',
                       'closed')),
    opened_at      timestamptz not null,
    changed_at     timestamptz not null,
    requested_by   text,
    reason         text,
    token_id       bigint,
    token_name     text,
    primary key (tenant, id),
    constraint gaps_decided check (state not in ('approved', 'dismissed')
        or (requested_by <> '' and reason <> ''))
) with (fillfactor = 70);

create unique index gaps_slot on interlock.gaps
    (tenant, schedule, slot_at, subject) where subject is not null;
create index gaps_list on interlock.gaps (tenant, state, since, id)
    where state is not null;
create index gaps_schedule on interlock.gaps (tenant, schedule, state, since,
    id) where state is not null;

-- What somebody wants run beside the slots: one date (run), a range
-- (backfill), what failed of a date (rerun); which works, and what became of
-- each.
create table interlock.schedule_plans (
    tenant        int not null,
    id            uuid not null,
    what          text not null check (what in ('run', 'backfill', 'rerun')),
    schedule      text not null,
    version       int not null,
    created_at    timestamptz not null default clock_timestamp(),
    expires_at    timestamptz not null,
    count         int not null check (count >= 0),
    detail        json not null,
    requested_by  text,
    reason        text,
    token_id      bigint,
    token_name    text,
    primary key (tenant, id)
);

create table interlock.schedule_plan_items (
    tenant         int not null,
    plan_id        uuid not null,
    n              int not null,
    business_date  date not null,
    slot_at        timestamptz,
    subject        text not null,
    work_key       text not null,
    again          boolean not null,  -- of a job that was there: a rerun of it
    outcome        text,              -- null: not yet; admitted; else why not
    job_id         uuid,
    primary key (tenant, plan_id, n)
) with (fillfactor = 70);

-- A slot on its way to be submitted.
--   what   due; waiting (its row is there already); approval (it is stored,
--          and not submitted)
--   first  the first subject of its slot
--   dated  no other slot of its schedule has its work key
create type interlock.slot_try as (
    tenant         int,
    schedule       text,
    slot_at        timestamptz,
    subject        text,
    what           text,
    version        int,
    business_date  date,
    work_key       text,
    kind           text,
    payload        text,
    priority       int,
    run_after      timestamptz,
    due_by         timestamptz,
    tries          int,
    first          boolean,
    dated          boolean
);

create type interlock.slot_told as (
    tenant      int,
    schedule    text,
    wake_kinds  text[],
    ended_jobs  uuid[]
);

create trigger schedule_versions_insert_only before update or delete
    on interlock.schedule_versions for each statement
    execute function interlock.refuse_change('insert-only');

-- Slots are accounted for once, and never given back.
create trigger schedules_move before update on interlock.schedules
    for each row
    when (new.version < old.version
          or (new.version = old.version and new.scanned_to < old.scanned_to))
    execute function interlock.refuse_change(
        'versions grow, and what is scanned stays so');
create trigger slots_fixed before update on interlock.slots
    for each row
    when (new.slot_at <> old.slot_at or new.subject <> old.subject
          or new.work_key <> old.work_key or new.version <> old.version
          or (old.state in ('run', 'skipped') and new.state <> old.state
              and not (old.state = 'skipped' and new.job_id is not null)))
    execute function interlock.refuse_change('a slot keeps its identity');
