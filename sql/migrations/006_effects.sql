-- 006_effects.sql: the effects ledger: what is meant to change the outside
-- world, what was sent, what is known of it, and the history of all that.


-- Effect kinds: what is known of a provider, and how to ask it.  Versioned as
-- kinds are; decisions go by the present one: it is knowledge, not a promise.
-- But each send says under which version it was made, for what went out
-- without a key no later version makes safe to repeat.
--   idempotent, key_window  the provider honours our key, for so long
--   send_deadline           after it a send without an outcome is unknown
--   lookup                  how to ask whether it happened (null: nobody can)
--   authoritative           "not there" proves that it did not happen, if
--   settle_after            so much time has passed since the last send
--   check_delay, check_backoff, max_checks, on_exhausted  of the look-up
--   evidence                the provider's own webhooks about it
--   outcome_map, key_header for sends through the egress

create table interlock.effect_kinds (
    tenant      int not null references interlock.tenants (id),
    name        text not null check (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    version     int not null check (version >= 1),
    deleted     boolean not null default false,
    created_at  timestamptz not null default clock_timestamp(),
    primary key (tenant, name)
);

create table interlock.effect_kind_versions (
    tenant         int not null,
    name           text not null,
    version        int not null check (version >= 1),
    idempotent     boolean not null,
    key_window     int not null check (key_window >= 1),
    send_deadline  int not null check (send_deadline >= 1),
    lookup         text,
    authoritative  boolean not null,
    settle_after   int not null check (settle_after >= 0),
    check_delay    int not null check (check_delay >= 0),
    check_backoff  int not null check (check_backoff >= 0),
    max_checks     int not null check (max_checks >= 1),
    on_exhausted   text not null
                   check (on_exhausted in ('needs_human',
                       'keep_checking')),
    evidence       text,
    outcome_map    text,
    key_header     text not null,
    created_at     timestamptz not null default clock_timestamp(),
    primary key (tenant, name, version),
    foreign key (tenant, name)
        references interlock.effect_kinds (tenant, name)
);


create function interlock.effects_valid(
    name text, scope_kind text, state text, round int, seq bigint,
    sends int, open_send uuid, open_until timestamptz, confirmed_round int,
    unknown_since timestamptz, human_at timestamptz, response bytea)
returns boolean
language plpgsql immutable
as $$
begin
    return case
        when name = '' or octet_length(name) > 256
        then interlock.refuse_row('effects', 'a name has 1 to 256 bytes')
        when scope_kind not in ('work', 'job')
        then interlock.refuse_row('effects', 'no such scope')
        when state not in ('intended', 'confirmed', 'failed', 'unknown',
            'needs_human')
        then interlock.refuse_row('effects', 'no such state')
        when round < 1 or seq < 1 or sends < 1
        then interlock.refuse_row('effects', 'rounds and sends count from 1')
        when (state = 'intended') <> (open_send is not null)
            or (open_send is null) <> (open_until is null)
        then interlock.refuse_row('effects',
            'an intended effect has its open send, no other one has')
        when (state = 'confirmed') <> (confirmed_round is not null)
        then interlock.refuse_row('effects',
            'a confirmed effect has its round, no other one has')
        when (state in ('unknown', 'needs_human'))
            <> (unknown_since is not null)
        then interlock.refuse_row('effects',
            'an unsettled effect says since when, no other one does')
        when human_at is not null and state <> 'unknown'
        then interlock.refuse_row('effects',
            'only an unknown effect is on its way to a human')
        when octet_length(response) > 65536
        then interlock.refuse_row('effects',
            'a stored answer has at most 65536 bytes')
        else true end;
end
$$;

create function interlock.sends_valid(
    n int, outcome text, ended_at timestamptz, ended_by text, heard text,
    heard_at timestamptz)
returns boolean
language plpgsql immutable
as $$
begin
    return case
        when n < 1
        then interlock.refuse_row('sends', 'sends count from 1')
        when outcome not in ('confirmed', 'failed', 'unknown')
            or heard not in ('confirmed', 'failed', 'unknown')
        then interlock.refuse_row('sends', 'no such outcome')
        when ended_by not in ('owner', 'deadline', 'end')
        then interlock.refuse_row('sends', 'no such end')
        when (outcome is null) <> (ended_at is null)
            or (outcome is null) <> (ended_by is null)
        then interlock.refuse_row('sends',
            'a send with an outcome has its end, no other one has')
        when (heard is null) <> (heard_at is null)
            or heard is not null and outcome is null
        then interlock.refuse_row('sends', 'what is heard is an outcome')
        when ended_by in ('deadline', 'end') and outcome <> 'unknown'
            and heard is distinct from outcome
        then interlock.refuse_row('sends',
            'a send that nobody spoke for is unknown')
        else true end;
end
$$;

revoke all on function interlock.effects_valid(text, text, text, int, bigint,
    int, uuid, timestamptz, int, timestamptz, timestamptz, bytea)
    from public;
revoke all on function interlock.sends_valid(int, text, timestamptz, text,
    text, timestamptz) from public;


-- One row an effect: a name in a scope.
--   scope, scope_kind  'work:VERSION:KEY' or 'job:ID' (the first job of its
--                      reruns); all effects of a scope belong to one work key
--   job_id         the job of its last send
--   round          grows after a definite no, and makes the provider's key
--   seq            grows with every change of what is known
--   digest         of the request of this round
--   sends          of this round; first_sent and last_sent are when the first
--                  and the last of them were begun
--   open_send      the one that is under way, until open_until
--   other_round    an earlier round that was confirmed while this one is
--                  under way
--   no_round       the round of which its provider said, while a send of it
--                  was under way, that it did not happen
--   human_at       when an unknown one that nobody can look up, or whose
--                  provider's memory of our key ends then, goes to a human,
--                  or is settled by no_round

create table interlock.effects (
    tenant           int not null,
    id               uuid not null,
    scope            text not null,
    scope_kind       text not null,
    name             text not null,
    kind             text not null,
    work_key         text not null,
    job_id           uuid not null,
    state            text not null,
    round            int not null,
    seq              bigint not null,
    digest           bytea,
    target           text,
    compensates      uuid,
    sends            int not null,
    first_sent       timestamptz not null,
    last_sent        timestamptz not null,
    open_send        uuid,
    open_until       timestamptz,
    other_round      int,
    no_round         int,
    confirmed_round  int,
    provider_ref     text,
    response_status  int,
    response_type    text,
    response         bytea,
    unknown_since    timestamptz,
    human_at         timestamptz,
    changed_at       timestamptz not null,
    created_at       timestamptz not null,
    primary key (tenant, id),
    constraint effects_valid check (interlock.effects_valid(name, scope_kind,
        state, round, seq, sends, open_send, open_until, confirmed_round,
        unknown_since, human_at, response))
) with (fillfactor = 70);

create unique index effects_name on interlock.effects (tenant, scope, name)
    where name is not null;
create index effects_work on interlock.effects (tenant, work_key, created_at,
    id) where work_key is not null;
create index effects_unsettled on interlock.effects (tenant, scope)
    where state in ('unknown', 'needs_human');
create index effects_human on interlock.effects (human_at)
    where human_at is not null;
create index effects_list on interlock.effects (tenant, created_at, id)
    where created_at is not null;
create index effects_state on interlock.effects (tenant, state, created_at,
    id) where state is not null;

-- One row a send: a permission to act, given to one attempt.
--   n            counts the effect's sends
--   call_id      the call that was given it last; named: by its caller
--   repeats      how often it was given again to calls that nobody named
--   outcome      how it ended, and by whom: its owner, its deadline, or the
--                end of its attempt; owner's words may still make an unknown
--                one confirmed or failed, and a failed one confirmed
--   heard        the last definite thing that its owner said, and the digest
--                of the last words;
--   answered     the state of the effect that they were answered

create table interlock.sends (
    tenant        int not null,
    id            uuid not null,
    effect_id     uuid not null,
    n             int not null,
    round         int not null,
    attempt_id    uuid not null,
    job_id        uuid not null,
    fence         bigint not null,
    kind_version  int not null,
    call_id       uuid,
    call_named    boolean not null default false,
    repeats       int not null default 0,
    begun_at      timestamptz not null,
    deadline      timestamptz not null,
    outcome       text,
    ended_at      timestamptz,
    ended_by      text,
    heard         text,
    heard_at      timestamptz,
    heard_digest  bytea,
    answered      text,
    provider_ref  text,
    primary key (tenant, id),
    constraint sends_valid check (interlock.sends_valid(n, outcome, ended_at,
        ended_by, heard, heard_at))
) with (fillfactor = 70);

create unique index sends_effect on interlock.sends (tenant, effect_id, n)
    where effect_id is not null;
create index sends_job on interlock.sends (tenant, job_id)
    where job_id is not null;
create index sends_open on interlock.sends (tenant, attempt_id)
    where outcome is null;
create index sends_due on interlock.sends (deadline) where outcome is null;

-- What happened to an effect, for ever.  seq is the effect's after it; moved
-- whether it grew by it.  xact orders rows for the chain: all rows of lower
-- transactions than the oldest running one are there.
--   what           send, outcome, deadline, end, look-up, evidence, resolve,
--                  human, check
--   said           what was said of it, by whom the other columns tell
--   contradiction  confirmed_twice, confirmed_after_failed,
--                  failed_after_confirmed

create table interlock.effects_history (
    tenant           int not null,
    id               bigint generated always as identity,
    xact             xid8 not null default pg_current_xact_id(),
    at               timestamptz not null,
    effect_id        uuid not null,
    seq              bigint not null,
    moved            boolean not null,
    what             text not null
                     check (what in ('send', 'outcome', 'deadline', 'end',
                         'look-up', 'evidence', 'resolve', 'human',
                         'check')),
    from_state       text,
    to_state         text not null,
    round            int not null,
    send_id          uuid,
    attempt_id       uuid,
    job_id           uuid,
    fence            bigint,
    said             text,
    provider_ref     text,
    detail           text,
    response_status  int,
    response_hash    bytea,
    requested_by     text,
    reason           text,
    token_id         bigint,
    token_name       text,
    contradiction    text,
    primary key (tenant, id)
);

create index effects_history_effect on interlock.effects_history
    (tenant, effect_id, id) where effect_id is not null;
create index effects_history_order on interlock.effects_history
    (tenant, xact, id) where xact is not null;
create index effects_history_wrong on interlock.effects_history
    (tenant, effect_id) where contradiction is not null;
-- Confirmed once.
create unique index effects_history_confirmed on interlock.effects_history
    (tenant, effect_id) where moved and to_state = 'confirmed';

-- The chain over a tenant's history: n counts its rows, hash covers the
-- former hash, n and the row's canonical bytes.  xact and history_id say up
-- to where in (xact, id) order it goes.

create table interlock.effects_chain (
    tenant      int not null,
    n           bigint not null check (n >= 1),
    history_id  bigint not null,
    prev        bytea not null check (octet_length(prev) = 32),
    hash        bytea not null check (octet_length(hash) = 32),
    sealed_at   timestamptz not null default clock_timestamp(),
    primary key (tenant, n)
);

create unique index effects_chain_history on interlock.effects_chain
    (tenant, history_id) where history_id is not null;

create table interlock.effects_chain_ends (
    tenant      int primary key references interlock.tenants (id),
    n           bigint not null default 0,
    hash        bytea not null default decode(repeat('00', 32), 'hex'),
    xact        xid8 not null default '0',
    history_id  bigint not null default 0
) with (fillfactor = 50);

-- How many effects there are of each kind and state, as far as the chain goes.
create table interlock.effect_tallies (
    tenant       int not null,
    effect_kind  text not null,
    state        text not null,
    n            bigint not null,
    primary key (tenant, effect_kind, state)
) with (fillfactor = 50);


create trigger effects_history_append_only before update or delete
    on interlock.effects_history for each statement
    execute function interlock.refuse_change('append-only');
create trigger effects_history_truncate before truncate
    on interlock.effects_history for each statement
    execute function interlock.refuse_change('append-only');
create trigger effects_chain_append_only before update or delete
    on interlock.effects_chain for each statement
    execute function interlock.refuse_change('append-only');
create trigger effect_kind_versions_insert_only before update or delete
    on interlock.effect_kind_versions for each statement
    execute function interlock.refuse_change('insert-only');

-- An effect keeps what it is; what is known of it only moves on: rounds grow
-- after a definite no, and a confirmed one stays confirmed.
create trigger effects_fixed before update on interlock.effects
    for each row
    when (new.id <> old.id or new.scope <> old.scope or new.name <> old.name
          or new.kind <> old.kind or new.work_key <> old.work_key
          or new.created_at <> old.created_at)
    execute function interlock.refuse_change('an effect keeps its identity');
create trigger effects_move before update on interlock.effects
    for each row
    when (new.seq < old.seq or new.round < old.round
          or (new.state <> old.state and new.seq <= old.seq)
          or (new.round > old.round and old.state <> 'failed')
          or (old.state = 'confirmed' and new.state <> 'confirmed')
          or (old.state = 'failed' and new.state not in ('failed',
              'confirmed', 'intended'))
          or (old.state = 'failed' and new.state = 'intended'
              and new.round <= old.round)
          or (old.state = 'needs_human' and new.state = 'intended'))
    execute function interlock.refuse_change('an effect only moves on');
create trigger sends_fixed before update on interlock.sends
    for each row
    when (new.effect_id <> old.effect_id or new.round <> old.round
          or new.attempt_id <> old.attempt_id or new.fence <> old.fence
          or new.deadline <> old.deadline
          or (old.outcome = 'confirmed'
              and new.outcome is distinct from 'confirmed')
          or (old.outcome = 'failed'
              and coalesce(new.outcome, '') not in ('failed', 'confirmed'))
          or (old.outcome is not null and new.outcome is null))
    execute function interlock.refuse_change('a send keeps its outcome');


-- Shapes that functions hand to each other.

-- What somebody says of an effect.
create type interlock.effect_word as (
    send_id          uuid,
    attempt_id       uuid,
    job_id           uuid,
    fence            bigint,
    said             text,
    provider_ref     text,
    detail           text,
    response_status  int,
    response_type    text,
    response         bytea,
    requested_by     text,
    reason           text,
    token_id         bigint,
    token_name       text,
    contradiction    text
);

create type interlock.effect_call as (
    ord          int,
    tenant       int,
    job          uuid,
    attempt      uuid,
    fence        bigint,
    name         text,
    kind         text,
    target       text,
    digest       bytea,
    compensates  uuid,
    call_id      uuid,
    call_named   boolean,
    outcome      text,
    detail       text,
    scope_kind   text,
    scope        text,
    work_key     text,
    ends         timestamptz,
    policy       interlock.effect_kind_versions
);

create type interlock.effect_answer as (
    ord              int,
    outcome          text,
    detail           text,
    effect_id        uuid,
    send_id          uuid,
    state            text,
    decision         text,
    idempotency_key  text,
    provider_ref     text,
    response_status  int,
    response_type    text,
    response         bytea,
    deadline_ms      bigint,
    key_header       text,
    outcome_map      text,
    job_id           uuid,
    work_key         text
);


-- What has other arguments from here on.
drop function if exists interlock.redrive(int, uuid, text, text, bigint, text,
    int);
