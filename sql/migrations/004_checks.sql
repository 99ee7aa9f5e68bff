-- 004_checks.sql: look-ups whether what a lost attempt did is there: the
-- result of a job, or an effect in the outside world.

-- Made anew by its file, with one argument more.
drop function if exists interlock.check_spec_trouble(json, text);


-- Open ones only, one a subject, in the order in which they are due.  While a
-- look-up is under way due_at is the time at which it counts as lost.
--   spec, vars  what to ask (check_spec_trouble) and the values of its fields
--   seq         what the answer is about: the effect's sequence number, or
--               the job's count of attempts; about a later one it says nothing
--   tries       look-ups begun; the last one's number
--   unclear     answers that settled nothing
--   job_id      of type worker: the job that does the present try

create table interlock.checks (
    tenant       int not null,
    id           uuid not null default gen_random_uuid(),
    subject      text not null check (subject in ('job', 'effect')),
    target       uuid not null,
    work_key     text not null,
    type         text not null check (type in ('http', 'worker')),
    spec         text not null,
    vars         text not null,
    seq          bigint not null,
    due_at       timestamptz not null,
    backoff      int not null,
    max_backoff  int not null,
    max_checks   int not null check (max_checks >= 1),
    timeout      int not null,
    tries        int not null default 0,
    unclear      int not null default 0,
    started_at   timestamptz,
    job_id       uuid,
    created_at   timestamptz not null default clock_timestamp(),
    primary key (tenant, id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

create unique index checks_target on interlock.checks (tenant, target)
    where target is not null;
create index checks_due on interlock.checks (type, due_at, tenant, id);
create index checks_job on interlock.checks (tenant, job_id)
    where job_id is not null;

-- What each look-up said, and what became of it.
create table interlock.check_answers (
    tenant      int not null,
    id          bigint generated always as identity,
    check_id    uuid not null,
    subject     text not null,
    target      uuid not null,
    work_key    text not null,
    seq         bigint not null,
    try         int not null,
    started_at  timestamptz not null,
    at          timestamptz not null default clock_timestamp(),
    answer      text not null
                check (answer in ('found', 'not_found', 'unclear')),
    detail      text,
    ref         text,
    outcome     text not null,
    primary key (tenant, id)
);

create index check_answers_target on interlock.check_answers
    (tenant, target, at) where target is not null;
create index check_answers_work on interlock.check_answers
    (tenant, work_key, at) where work_key is not null;

create trigger check_answers_insert_only before update or delete
    on interlock.check_answers for each statement
    execute function interlock.refuse_change('insert-only');

-- What an answer led to.
--   outcome   found, not_found, exhausted: settled; again: looked at once
--             more; gone: nobody asks any more
--   due_at    with again: not before that time
create type interlock.check_result as (
    outcome     text,
    due_at      timestamptz,
    ended_jobs  uuid[],
    wake_kinds  text[],
    groups      text[]
);
