-- 001_initial.sql: schema, tables, constraints.
--
-- Tenant is the first column of every key, so that a shard is a set of
-- tenants and no constraint crosses shards.  There are no foreign keys among
-- the hot tables: their KEY SHARE lock costs a probe per row and does not
-- stop a late owner; check.sql proves what they would.
--
-- Sessions keep plans that were made while the tables were empty.  Then every
-- index that starts with the tenant looks as good as the primary key, and one
-- chosen by the tenant alone reads the whole table ever after.  So the other
-- indexes have a predicate ("job_id is not null") that is always true, but
-- implied only by a query that names their own column.

create schema if not exists interlock;
revoke all on schema interlock from public;
grant usage on schema interlock to interlock_service, interlock_audit;

-- New functions are executable by everybody unless the owner says otherwise;
-- a per-schema default cannot take that away, a global one can.
alter default privileges revoke execute on functions from public;

do $$
begin
    execute format('revoke all on database %I from public',
                   current_database());
    execute format('grant connect on database %I '
                   'to interlock_service, interlock_audit',
                   current_database());
end
$$;

create table if not exists interlock.migrations (
    id          int primary key,
    name        text not null,
    digest      bytea not null,
    applied_at  timestamptz not null default clock_timestamp()
);

create table if not exists interlock.sources (
    name        text primary key,
    digest      bytea not null,
    applied_at  timestamptz not null default clock_timestamp()
);

-- One row: names this installation.  Part of the epoch that tells the edges
-- to drop what they remember.
create table interlock.installation (
    one         boolean primary key default true check (one),
    id          uuid not null default gen_random_uuid(),
    created_at  timestamptz not null default clock_timestamp()
);

insert into interlock.installation default values;


-- Who

create table interlock.tenants (
    id           int generated always as identity primary key,
    name         text not null unique
                 check (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    fence_floor  bigint not null default 0 check (fence_floor >= 0),
    created_at   timestamptz not null default clock_timestamp()
);

create table interlock.api_tokens (
    tenant      int not null references interlock.tenants (id),
    id          bigint generated always as identity,
    name        text not null check (name <> '' and octet_length(name) <= 255),
    role        text not null
                check (role in ('submit', 'worker', 'operator', 'auditor')),
    hash        bytea not null check (octet_length(hash) = 32),
    created_at  timestamptz not null default clock_timestamp(),
    revoked_at  timestamptz,
    primary key (tenant, id)
);

-- The one look-up that finds out the tenant, so it cannot start with it.
create unique index api_tokens_hash on interlock.api_tokens (hash);


-- What: kinds and their versions.  A job keeps the version under which it was
-- admitted, so versions are never changed nor dropped.

create table interlock.kinds (
    tenant      int not null references interlock.tenants (id),
    name        text not null check (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    version     int not null check (version >= 1),
    deleted     boolean not null default false,
    created_at  timestamptz not null default clock_timestamp(),
    primary key (tenant, name)
);

create table interlock.kind_versions (
    tenant            int not null,
    name              text not null,
    version           int not null check (version >= 1),
    overlap           text not null default 'skip'
                      check (overlap in ('allow', 'skip', 'buffer_one',
                             'buffer_first', 'buffer_all', 'replace')),
    overflow          text not null default 'reject'
                      check (overflow in ('reject', 'park')),
    on_busy           text not null default 'skip'
                      check (on_busy in ('skip', 'error')),
    allow_fresh       boolean not null default false,
    when_completed    text not null default 'run'
                      check (when_completed in ('run', 'return')),
    result_ttl        int check (result_ttl >= 0),
    idempotency_ttl   int not null default 604800
                      check (idempotency_ttl >= 1),
    lease_seconds     int not null default 30 check (lease_seconds >= 1),
    max_runtime       int not null default 21600 check (max_runtime >= 1),
    cancel_grace      int not null default 30 check (cancel_grace >= 0),
    max_attempts      int not null default 5 check (max_attempts >= 1),
    retry_for         int not null default 86400 check (retry_for >= 0),
    backoff           int not null default 5 check (backoff >= 0),
    max_backoff       int not null default 600 check (max_backoff >= 0),
    on_lost           text not null default 'retry'
                      check (on_lost in ('retry', 'check', 'hold')),
    result_check      text,
    max_waiting       int not null default 1000 check (max_waiting >= 1),
    max_queued        int not null default 100000 check (max_queued >= 1),
    max_wait          int not null default 86400 check (max_wait >= 1),
    limits            text[] not null default '{}',
    priority          int not null default 0
                      check (priority between -1000 and 1000),
    "order"           text not null default 'oldest'
                      check ("order" in ('oldest', 'newest')),
    fair_by           text,
    aging             int not null default 60 check (aging >= 0),
    effect_scope      text check (effect_scope in ('work', 'job')),
    delivery_effects  text[] not null default '{}',
    max_payload       int not null default 33554432
                      check (max_payload >= 0),
    key_template      text,
    protects          text,
    examples          text,
    created_at        timestamptz not null default clock_timestamp(),
    primary key (tenant, name, version),
    foreign key (tenant, name) references interlock.kinds (tenant, name)
);


-- What a row may be.  One function a table instead of a CHECK for each rule:
-- PostgreSQL reads and plans every CHECK of a table anew in every statement,
-- which costs more than ten times as much as the row itself.

create function interlock.refuse_row(p_table text, p_rule text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'refused on %: %', p_table, p_rule
        using errcode = 'check_violation';
end
$$;

create function interlock.works_valid(
    work_key text, fence bigint, max_version bigint, max_version_job uuid,
    last_revision int, published_revision int, published_fence bigint,
    published_version bigint, published_at timestamptz)
returns boolean
language plpgsql immutable
as $$
begin
    return case
        when work_key = '' or octet_length(work_key) > 2048
        then interlock.refuse_row('works', 'a key has 1 to 2048 bytes')
        when fence < 0 or last_revision < 0
        then interlock.refuse_row('works', 'no negative numbers')
        when (max_version is null) <> (max_version_job is null)
        then interlock.refuse_row('works', 'a version has its job')
        when (published_revision is null) <> (published_fence is null)
            or (published_revision is null) <> (published_at is null)
        then interlock.refuse_row('works',
            'a published revision has its fence and time')
        when published_revision > last_revision
            or published_fence > fence
            or published_version > max_version
        then interlock.refuse_row('works',
            'nothing is published above the revisions, fence and versions')
        else true end;
end
$$;

create function interlock.requests_valid(
    id uuid, decision text, code int, job_id uuid, first_request uuid)
returns boolean
language plpgsql immutable
as $$
begin
    return case
        when decision not in ('accepted', 'buffered', 'replaced',
            'duplicate', 'skipped', 'completed', 'parked', 'rejected')
        then interlock.refuse_row('requests', 'no such decision')
        when code not between 200 and 499
        then interlock.refuse_row('requests', 'no such code')
        when decision in ('accepted', 'buffered', 'replaced', 'parked')
            and job_id is distinct from id
        then interlock.refuse_row('requests',
            'an admitted request has the job of its own id')
        when decision not in ('accepted', 'buffered', 'replaced', 'parked')
            and job_id = id
        then interlock.refuse_row('requests',
            'only an admitted request has a job of its own')
        when decision = 'duplicate' and first_request is null
        then interlock.refuse_row('requests', 'a duplicate has its first')
        when decision = 'rejected' and code not in (422, 429)
        then interlock.refuse_row('requests', 'rejected is 422 or 429')
        else true end;
end
$$;

create function interlock.jobs_valid(
    status text, place text, decision text, attempts int,
    started_at timestamptz, finished_at timestamptz, retry_at timestamptz,
    error text, revision int, superseded_by uuid)
returns boolean
language plpgsql immutable
as $$
begin
    return case
        when status not in ('queued', 'running', 'checking', 'held',
            'parked', 'succeeded', 'failed', 'canceled', 'superseded',
            'expired')
        then interlock.refuse_row('jobs', 'no such status')
        when place not in ('ready', 'delayed', 'blocked')
        then interlock.refuse_row('jobs', 'no such place')
        when decision not in ('accepted', 'buffered', 'replaced', 'parked')
        then interlock.refuse_row('jobs', 'no such decision')
        when attempts < 0
        then interlock.refuse_row('jobs', 'no negative attempts')
        when (status = 'queued') <> (place is not null)
        then interlock.refuse_row('jobs',
            'a queued job has its place, no other one has')
        when (status in ('succeeded', 'failed', 'canceled', 'superseded',
                'expired')) <> (finished_at is not null)
        then interlock.refuse_row('jobs',
            'an ended job has its end, no other one has')
        when (status = 'superseded') <> (superseded_by is not null)
        then interlock.refuse_row('jobs',
            'a superseded job has its successor, no other one has')
        when (status = 'succeeded') <> (revision is not null)
        then interlock.refuse_row('jobs',
            'a succeeded job has its revision, no other one has')
        when status = 'running' and (started_at is null or attempts = 0)
        then interlock.refuse_row('jobs',
            'a running job has its start and its attempt')
        when status = 'failed' and error is null
        then interlock.refuse_row('jobs', 'a failed job has its reason')
        when retry_at is not null and place is distinct from 'delayed'
        then interlock.refuse_row('jobs',
            'only a delayed job waits for its retry')
        else true end;
end
$$;

create function interlock.leases_valid(
    fence bigint, attempt int, expires_at timestamptz,
    runtime_end timestamptz)
returns boolean
language plpgsql immutable
as $$
begin
    return case
        when fence <= 0 or attempt <= 0
        then interlock.refuse_row('leases', 'fence and attempt count from 1')
        when expires_at > runtime_end
        then interlock.refuse_row('leases',
            'no lease reaches beyond max_runtime')
        else true end;
end
$$;

create function interlock.attempts_valid(
    granted_at timestamptz, ended_at timestamptz, call text, digest bytea)
returns boolean
language plpgsql immutable
as $$
begin
    return case
        when call not in ('complete', 'fail', 'release', 'unclaim', 'lost')
        then interlock.refuse_row('attempts', 'no such end')
        when (call in ('complete', 'fail', 'release')) <> (digest is not null)
        then interlock.refuse_row('attempts',
            'an owner''s call has its digest, no other end has')
        when ended_at < granted_at
        then interlock.refuse_row('attempts', 'no end before the start')
        else true end;
end
$$;

create function interlock.results_valid(
    revision int, processed bigint, failed bigint)
returns boolean
language plpgsql immutable
as $$
begin
    return case
        when revision < 1
        then interlock.refuse_row('results', 'revisions count from 1')
        when processed < 0 or failed < 0
        then interlock.refuse_row('results', 'no negative counts')
        else true end;
end
$$;

revoke all on function interlock.refuse_row(text, text) from public;
revoke all on function interlock.results_valid(int, bigint, bigint)
    from public;
revoke all on function interlock.works_valid(text, bigint, bigint, uuid, int,
    int, bigint, bigint, timestamptz) from public;
revoke all on function interlock.requests_valid(uuid, text, int, uuid, uuid)
    from public;
revoke all on function interlock.jobs_valid(text, text, text, int,
    timestamptz, timestamptz, timestamptz, text, int, uuid) from public;
revoke all on function interlock.leases_valid(bigint, int, timestamptz,
    timestamptz) from public;
revoke all on function interlock.attempts_valid(timestamptz, timestamptz,
    text, bytea) from public;


-- One row per work key.  Whoever decides something about a key locks this
-- row first, FOR NO KEY UPDATE.

create table interlock.works (
    tenant              int not null,
    work_key            text not null,
    kind                text not null,
    fence               bigint not null default 0,
    max_version         bigint,
    max_version_job     uuid,
    last_revision       int not null default 0,
    published_revision  int,
    published_fence     bigint,
    published_version   bigint,
    published_at        timestamptz,
    first_request       uuid not null,
    created_at          timestamptz not null default clock_timestamp(),
    primary key (tenant, work_key),
    constraint works_valid check (interlock.works_valid(work_key, fence,
        max_version, max_version_job, last_revision, published_revision,
        published_fence, published_version, published_at))
) with (fillfactor = 70);


-- Arrivals.  requests is insert-only: each arrival and the one decision it
-- got, with the answer as it was given.

create table interlock.requests (
    tenant             int not null,
    id                 uuid not null,
    arrived_at         timestamptz not null default clock_timestamp(),
    source             text not null,
    idempotency_key    text,
    fingerprint        bytea,
    kind               text not null,
    work_key           text not null,
    version            bigint,
    decision           text not null,
    code               int not null,
    reason             text,
    job_id             uuid,
    status             text,
    active_job_id      uuid,
    superseded_job_id  uuid,
    result_url         text,
    first_request      uuid,
    requested_by       text,
    request_reason     text,
    primary key (tenant, id),
    constraint requests_valid check (interlock.requests_valid(id, decision,
        code, job_id, first_request))
);

create index requests_work on interlock.requests
    (tenant, work_key, arrived_at) where work_key is not null;

-- Insert-only too, but rows go when their time is over (prune) or when the
-- request that made them failed after all.
create table interlock.idempotency (
    tenant       int not null,
    source       text not null,
    key          text not null check (char_length(key) between 1 and 255),
    request_id   uuid not null,
    fingerprint  bytea not null,
    expires_at   timestamptz not null,
    primary key (tenant, source, key)
);

create index idempotency_expiry on interlock.idempotency (expires_at);

create table interlock.payloads (
    tenant        int not null,
    job_id        uuid not null,
    payload       bytea,
    content_type  text,
    headers       text,
    traceparent   text,
    primary key (tenant, job_id)
);


-- Jobs.  place says where a queued job stands: ready (may be claimed),
-- delayed (until run_at), blocked (behind another job of its work key).

create table interlock.jobs (
    tenant           int not null,
    id               uuid not null,
    kind             text not null,
    kind_version     int not null,
    work_key         text not null,
    version          bigint,
    status           text not null,
    place            text,
    exclusive        boolean not null,
    ending           boolean not null default false,
    fresh            boolean not null default false,
    decision         text not null,
    source           text not null,
    requested_by     text,
    reason           text,
    payload_hash     bytea,
    priority         int not null,
    order_key        timestamptz not null,
    run_at           timestamptz not null,
    deadline         timestamptz,
    attempts         int not null default 0,
    created_at       timestamptz not null,
    started_at       timestamptz,
    finished_at      timestamptz,
    retry_at         timestamptz,
    progress         json,
    step             text,
    checkpoint       json,
    error            text,
    user_message     text,
    log_url          text,
    result_url       text,
    revision         int,
    superseded_by    uuid,
    rerun_of         uuid,
    primary key (tenant, id),
    constraint jobs_valid check (interlock.jobs_valid(status, place,
        decision, attempts, started_at, finished_at, retry_at, error,
        revision, superseded_by))
) with (fillfactor = 70);

-- The claim's two indexes: small, because their rows leave with the claim.
create index jobs_ready on interlock.jobs (tenant, kind, order_key, id)
    where place = 'ready';
create index jobs_delayed on interlock.jobs (tenant, kind, run_at, id)
    where place = 'delayed';

-- Active jobs of a work key.
create index jobs_active on interlock.jobs (tenant, work_key, created_at)
    where status in ('queued', 'running', 'checking', 'held');

-- G3 for jobs: at most one exclusive job of a key stands before the others ...
create unique index jobs_one_head on interlock.jobs (tenant, work_key)
    where exclusive and (status in ('running', 'checking', 'held')
                         or place in ('ready', 'delayed'));

-- ... and at most one waits behind it (of the overlaps there are, none keeps
-- a longer queue).
create unique index jobs_one_waiting on interlock.jobs (tenant, work_key)
    where place = 'blocked';


-- Running attempts only.  Renewing changes no indexed column, so that its
-- updates are HOT; recovery reads the whole table.

create table interlock.leases (
    tenant            int not null,
    attempt_id        uuid not null,
    claim_id          uuid not null,
    job_id            uuid not null,
    kind              text not null,
    work_key          text not null,
    exclusive         boolean not null,
    fence             bigint not null,
    attempt           int not null,
    worker            text not null,
    granted_at        timestamptz not null,
    expires_at        timestamptz not null,
    runtime_end       timestamptz not null,
    lease_seconds     int not null,
    renewals          int not null default 0,
    cancel_requested  boolean not null default false,
    cancel_deadline   timestamptz,
    progress          json,
    step              text,
    checkpoint        json,
    primary key (tenant, attempt_id),
    constraint leases_valid check (interlock.leases_valid(fence, attempt,
        expires_at, runtime_end))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

-- G3 as a constraint.
create unique index leases_one_owner on interlock.leases (tenant, work_key)
    where exclusive;
create unique index leases_job on interlock.leases (tenant, job_id)
    where job_id is not null;
create index leases_claim on interlock.leases (tenant, claim_id)
    where claim_id is not null;


-- History: an attempt's end, with the answer that its owner got, so that a
-- repeated call gets it again.

create table interlock.attempts (
    tenant        int not null,
    id            uuid not null,
    job_id        uuid not null,
    kind          text not null,
    work_key      text not null,
    fence         bigint not null,
    attempt       int not null,
    worker        text not null,
    granted_at    timestamptz not null,
    ended_at      timestamptz not null,
    renewals      int not null,
    call          text not null,
    digest        bytea,
    status        text not null,
    revision      int,
    retry_at      timestamptz,
    ended_jobs    uuid[] not null default '{}',
    error         text,
    retryable     boolean,
    user_message  text,
    log_url       text,
    progress      json,
    step          text,
    primary key (tenant, id),
    constraint attempts_valid check (interlock.attempts_valid(granted_at,
        ended_at, call, digest))
);

create unique index attempts_fence on interlock.attempts
    (tenant, work_key, fence) where work_key is not null;
create index attempts_job on interlock.attempts (tenant, job_id, fence)
    where job_id is not null;

create table interlock.results (
    tenant       int not null,
    work_key     text not null,
    revision     int not null,
    job_id       uuid not null,
    attempt_id   uuid not null,
    fence        bigint not null,
    version      bigint,
    result       json,
    result_url   text,
    processed    bigint,
    failed       bigint,
    published    boolean not null,
    created_at   timestamptz not null,
    primary key (tenant, work_key, revision),
    constraint results_valid check (interlock.results_valid(revision,
        processed, failed))
);

create unique index results_job on interlock.results (tenant, job_id)
    where job_id is not null;

-- Expired leases whose recovery raised an error: seen, counted, and left
-- alone until next_try, so that they do not stop the others.
create table interlock.recovery_troubles (
    tenant      int not null,
    attempt_id  uuid not null,
    times       int not null default 1,
    sqlstate    text not null,
    message     text not null,
    first_at    timestamptz not null default clock_timestamp(),
    next_try    timestamptz not null,
    primary key (tenant, attempt_id)
);


-- What no function may do, whatever its bugs.

create function interlock.refuse_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'refused on %: %', tg_table_name, tg_argv[0]
        using errcode = 'integrity_constraint_violation';
end
$$;

revoke all on function interlock.refuse_change() from public;

create trigger works_fence before update on interlock.works
    for each row
    when (new.fence < old.fence or new.last_revision < old.last_revision
          or new.max_version < old.max_version or new.kind <> old.kind)
    execute function interlock.refuse_change(
        'fence, revisions and versions only grow, a key keeps its kind');

create trigger works_published before update on interlock.works
    for each row
    when (new.published_fence < old.published_fence
          or new.published_version < old.published_version)
    execute function interlock.refuse_change(
        'published results only move forward');

create trigger jobs_final before update on interlock.jobs
    for each row
    when (old.finished_at is not null and new.status <> old.status)
    execute function interlock.refuse_change('a final status stays');

create trigger jobs_start before update on interlock.jobs
    for each row
    when (new.status = 'running' and old.status <> 'running'
          and old.place is distinct from 'ready'
          and old.place is distinct from 'delayed')
    execute function interlock.refuse_change(
        'only a ready or delayed job starts');

create trigger leases_fixed before update on interlock.leases
    for each row
    when (new.fence <> old.fence or new.attempt_id <> old.attempt_id
          or new.job_id <> old.job_id or new.work_key <> old.work_key
          or new.runtime_end <> old.runtime_end)
    execute function interlock.refuse_change('a lease keeps its identity');

create trigger requests_insert_only before update or delete
    on interlock.requests for each statement
    execute function interlock.refuse_change('insert-only');
create trigger payloads_insert_only before update or delete
    on interlock.payloads for each statement
    execute function interlock.refuse_change('insert-only');
create trigger attempts_insert_only before update or delete
    on interlock.attempts for each statement
    execute function interlock.refuse_change('insert-only');
create trigger results_insert_only before update or delete
    on interlock.results for each statement
    execute function interlock.refuse_change('insert-only');
create trigger idempotency_insert_only before update
    on interlock.idempotency for each statement
    execute function interlock.refuse_change('insert-only');
create trigger kind_versions_insert_only before update or delete
    on interlock.kind_versions for each statement
    execute function interlock.refuse_change('insert-only');


-- Shapes that functions hand to each other.

create type interlock.submission as (
    ord           int,
    tenant        int,
    request_id    uuid,
    source        text,
    idem          text,
    fingerprint   bytea,
    mismatch      text,
    kind          text,
    kind_version  int,
    work_key      text,
    version       bigint,
    payload       bytea,
    content_type  text,
    headers       text,
    traceparent   text,
    priority      int,
    run_after     timestamptz,
    deadline      timestamptz,
    fresh         boolean,
    requested_by  text,
    reason        text
);

create type interlock.submit_answer as (
    ord                int,
    outcome            text,
    code               int,
    decision           text,
    reason             text,
    problem            text,
    detail             text,
    job_id             uuid,
    status             text,
    kind               text,
    work_key           text,
    active_job_id      uuid,
    superseded_job_id  uuid,
    result_url         text,
    retry_after        int,
    done_for           int,
    replayed           boolean,
    runnable           boolean,
    ended_jobs         uuid[],
    policy             text
);

create type interlock.attempt_answer as (
    status      text,
    revision    int,
    retry_at    timestamptz,
    runnable    boolean,
    ended_jobs  uuid[],
    run_ms      bigint,
    blocked_ms  bigint
);

create type interlock.recovered as (
    tenant         int,
    job_id         uuid,
    attempt_id     uuid,
    kind           text,
    status         text,
    runnable_kind  text,
    ended_jobs     uuid[],
    blocked_ms     bigint
);
