-- 009_alerts.sql: pauses of kinds and sources, queues that are watched, and
-- alerts: what is told to whom, once when it begins and once when it is over.

-- Functions whose answers gain columns: they are made anew by their files.
drop function if exists interlock.submit_refusal(text, text, int, text);


-- A queue older than alert_at is told; one older than stop_at stops its kind.
alter table interlock.kind_versions
    add column alert_at int check (alert_at >= 1),
    add column stop_at int check (stop_at >= 1);

-- What stands still until somebody resumes it: the claims of a kind, the
-- requests of a source.
create table interlock.pauses (
    tenant        int not null,
    what          text not null check (what in ('kind', 'source')),
    name          text not null,
    paused_at     timestamptz not null default clock_timestamp(),
    requested_by  text not null,
    reason        text not null,
    token_id      bigint,
    token_name    text,
    primary key (tenant, what, name)
);

-- Kinds that stop_at has stopped and whose queue has not been younger since:
-- whoever resumes one to work off what is old is not stopped again for it.
create table interlock.kind_stops (
    tenant      int not null,
    kind        text not null,
    stopped_at  timestamptz not null default clock_timestamp(),
    primary key (tenant, kind)
);


-- Alerts.  conditions says of what is told, kinds and schedules about which
-- (null: all).
--   due_at      when something is to be sent to it (null: nothing is)
--   busy_until  somebody is sending; then it counts as lost
--   fails       calls in a row that came to nothing; nothing is sent before
--               hold_until for them

create table interlock.alerts (
    tenant        int not null references interlock.tenants (id),
    name          text not null check (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    url           text not null,
    conditions    text[] not null,
    kinds         text[],
    schedules     text[],
    secret_file   text,
    due_at        timestamptz,
    busy_until    timestamptz,
    hold_until    timestamptz,
    fails         int not null default 0,
    last_sent_at  timestamptz,
    last_error    text,
    created_at    timestamptz not null default clock_timestamp(),
    updated_at    timestamptz not null default clock_timestamp(),
    primary key (tenant, name)
) with (fillfactor = 50);

create index alerts_due on interlock.alerts (due_at) where due_at is not null;

-- Apart, and without a constraint on it: the server puts a row that breaks
-- one into its log.
create table interlock.alert_secrets (
    tenant  int not null,
    alert   text not null,
    secret  bytea,
    primary key (tenant, alert)
);

-- Whose conditions are looked at, one scan at a time each: next_at when
-- again, slow_at when again at what costs more.
create table interlock.alert_scans (
    tenant   int primary key references interlock.tenants (id),
    next_at  timestamptz not null default '-infinity',
    slow_at  timestamptz not null default '-infinity'
) with (fillfactor = 50);

create index alert_scans_next on interlock.alert_scans (next_at);

-- What happened to jobs, effects and gaps that an alert may want to know of,
-- until the next scan; in the order in which it happened to each.
create table interlock.alert_queue (
    tenant     int not null,
    id         bigint generated always as identity,
    at         timestamptz not null default clock_timestamp(),
    condition  text not null,
    opened     boolean not null,
    subject    text not null,
    kind       text,
    schedule   text,
    work_key   text,
    info       json,
    primary key (tenant, id)
) with (autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

-- Conditions that hold, by alert.  event_id is the event that told so; null:
-- one of so many of its group (a kind's, a schedule's) that they are told
-- together.
create table interlock.alert_states (
    tenant     int not null,
    alert      text not null,
    condition  text not null,
    subject    text not null,
    grouped    text not null,
    kind       text,
    schedule   text,
    work_key   text,
    event_id   uuid,
    since      timestamptz not null,
    info       json,
    primary key (tenant, alert, condition, subject)
);

create index alert_states_group on interlock.alert_states
    (tenant, alert, condition, grouped) where grouped is not null;

-- What was told, for ever: body is what is sent, each time the same.
create table interlock.alert_events (
    tenant        int not null,
    id            uuid not null,
    seq           bigint generated always as identity,
    alert         text not null,
    condition     text not null,
    subject       text not null,
    state         text not null check (state in ('opened', 'recovered')),
    opened_event  uuid,
    at            timestamptz not null,
    body          text not null,
    tries         int not null default 0,
    delivered_at  timestamptz,
    dropped_at    timestamptz,
    last_status   int,
    last_error    text,
    primary key (tenant, id)
);

create index alert_events_list on interlock.alert_events (tenant, alert, seq)
    where alert is not null;

create trigger alert_events_fixed before update on interlock.alert_events
    for each row
    when (new.id <> old.id or new.body <> old.body or new.alert <> old.alert
          or new.condition <> old.condition or new.subject <> old.subject
          or new.state <> old.state or new.at <> old.at
          or (old.delivered_at is not null
              and new.delivered_at is distinct from old.delivered_at))
    execute function interlock.refuse_change('an event is what it is');

-- Events that are not with their receiver yet.
create table interlock.alert_deliveries (
    tenant      int not null,
    event_id    uuid not null,
    seq         bigint not null,
    alert       text not null,
    condition   text not null,
    subject     text not null,
    due_at      timestamptz not null,
    tries       int not null default 0,
    started_at  timestamptz,
    created_at  timestamptz not null,
    primary key (tenant, event_id)
) with (fillfactor = 50);

create index alert_deliveries_due on interlock.alert_deliveries
    (tenant, alert, due_at, seq) where alert is not null;
create index alert_deliveries_line on interlock.alert_deliveries
    (tenant, alert, condition, subject, seq) where subject is not null;


-- What happened to a job.  A comparison for most changes of a
-- row, a look into a table of a few rows for those that end badly.
create function interlock.alert_note_job() returns trigger
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_now  timestamptz := clock_timestamp();
begin
    perform from interlock.alerts a where a.tenant = new.tenant limit 1;
    if not found then
        return null;
    end if;

    insert into interlock.alert_queue (tenant, at, condition, opened,
        subject, kind, work_key, info)
    select new.tenant, v_now, x.condition, x.opened, 'job:' || new.id,
        new.kind, new.work_key, json_build_object('job_id', new.id,
            'status', new.status, 'attempt', new.attempts,
            'error', left(new.error, 1000))
    from (values (1, old.status, false), (2, new.status, true))
        x (n, condition, opened)
    where x.condition in ('held', 'failed')
    order by x.n;

    -- Whatever it was that could not be looked up has been decided.
    insert into interlock.alert_queue (tenant, at, condition, opened,
        subject, kind, work_key, info)
    select new.tenant, v_now, 'check_exhausted', false, 'job:' || new.id,
        new.kind, new.work_key, json_build_object('job_id', new.id,
            'status', new.status)
    where old.status in ('held', 'failed');

    return null;
end
$$;

create function interlock.alert_note_effect() returns trigger
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    perform from interlock.alerts a where a.tenant = new.tenant limit 1;
    if not found then
        return null;
    end if;

    insert into interlock.alert_queue (tenant, condition, opened, subject,
        kind, work_key, info)
    select new.tenant, 'check_exhausted', new.state = 'needs_human',
        'effect:' || new.id, j.kind, new.work_key, json_build_object(
            'effect_id', new.id, 'name', new.name, 'effect_kind', new.kind,
            'state', new.state, 'job_id', new.job_id)
    from interlock.jobs j
    where j.tenant = new.tenant and j.id = new.job_id
    limit 1;

    return null;
end
$$;

create function interlock.alert_note_gap() returns trigger
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    perform from interlock.alerts a where a.tenant = new.tenant limit 1;
    if not found then
        return null;
    end if;

    insert into interlock.alert_queue (tenant, condition, opened, subject,
        kind, schedule, work_key, info)
    select new.tenant, 'gap', new.state = 'open', 'gap:' || new.id, v.kind,
        new.schedule, new.work_key, json_build_object('gap_id', new.id,
            'slot_at', to_char(new.slot_at at time zone 'UTC',
                'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
            'business_date', new.business_date,
            'slot_subject', new.subject, 'why', new.why,
            'gap_state', new.state)
    from interlock.schedules s
    cross join lateral (
        select x.kind from interlock.schedule_versions x
        where x.tenant = s.tenant and x.name = s.name
            and x.version = s.version
        limit 1) v
    where s.tenant = new.tenant and s.name = new.schedule;

    return null;
end
$$;

revoke all on function interlock.alert_note_job() from public;
revoke all on function interlock.alert_note_effect() from public;
revoke all on function interlock.alert_note_gap() from public;

create trigger jobs_alerts after update on interlock.jobs
    for each row
    when (new.status is distinct from old.status
          and (new.status in ('held', 'failed')
               or old.status in ('held', 'failed')))
    execute function interlock.alert_note_job();

create trigger effects_alerts after update on interlock.effects
    for each row
    when (new.state is distinct from old.state
          and (new.state = 'needs_human' or old.state = 'needs_human'))
    execute function interlock.alert_note_effect();

create trigger gaps_alerts_open after insert on interlock.gaps
    for each row
    when (new.state = 'open')
    execute function interlock.alert_note_gap();

create trigger gaps_alerts after update on interlock.gaps
    for each row
    when (new.state is distinct from old.state
          and (new.state = 'open' or old.state = 'open'))
    execute function interlock.alert_note_gap();
