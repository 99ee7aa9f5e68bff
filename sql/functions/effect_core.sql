-- effect_core.sql: how an effect moves from state to state; helpers of those
-- who begin, hear, look, resolve and end.
--
-- Locks: whoever calls one of these has locked the effect (FOR NO KEY UPDATE)
-- after everything before it in the order works → leases → effects (by
-- tenant, scope, name); whoever settles holds the work too.  A row of sends
-- is under the lock of its effect.  Each takes the effect as it was read
-- under that lock, stores what becomes of it with an entry of its history,
-- and answers the new row.

-- job_root(j): the first of the job and what it is a rerun of.  Locks: none.
create or replace function interlock.job_root(j interlock.jobs) returns uuid
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_id  uuid := j.id;
    v_of  uuid := j.rerun_of;
begin
    while v_of is not null loop
        v_id := v_of;
        select x.rerun_of into v_of from interlock.jobs x
        where x.tenant = j.tenant and x.id = v_id;
    end loop;

    return v_id;
end
$$;

-- effect_scope_of(j): within what the effects of a job are named: its work
-- key and version, or the job with its retries and reruns.  Locks: none.
create or replace function interlock.effect_scope_of(
    j interlock.jobs, out scope_kind text, out scope text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    select coalesce(v.effect_scope, case v.when_completed
        when 'return' then 'work' else 'job' end)
    into strict scope_kind
    from interlock.kind_versions v
    where v.tenant = j.tenant and v.name = j.kind
        and v.version = j.kind_version;

    scope := case scope_kind
        when 'work' then 'work:' || coalesce(j.version::text, '') || ':'
            || j.work_key
        else 'job:' || case when j.rerun_of is null then j.id
            else interlock.job_root(j) end end;
end
$$;

-- effect_key(id, round): the provider's idempotency key.  It grows with the
-- round only: never with a fence or an attempt.
create or replace function interlock.effect_key(p_id uuid, p_round int)
returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    return p_id || '-' || p_round;
end $$;

-- effect_repeat_end(e, k): until when e may be sent again under its present
-- key, or null: it may not.  What counts is what was known of the provider all
-- the time: if any version of the kind since the round's first send did not
-- honour keys, or took them in another header, one of the sends may have gone
-- out without our key, and a later version cannot make good for that.  Of the
-- windows the shortest holds: within it the provider still knows the first
-- send when this one arrives.  For one effect's round this only ever shrinks.
create or replace function interlock.effect_repeat_end(
    e interlock.effects, k interlock.effect_kind_versions)
returns timestamptz
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_first   int;
    v_last    int;
    v_window  int;
begin
    if not k.idempotent then
        return null;
    end if;

    select min(s.kind_version), max(s.kind_version) into v_first, v_last
    from interlock.sends s
    where s.tenant = e.tenant and s.effect_id = e.id and s.round = e.round;

    select min(v.key_window) into v_window
    from interlock.effect_kind_versions v
    where v.tenant = e.tenant and v.name = e.kind
        and v.version between least(v_first, k.version)
            and greatest(v_last, k.version)
    having bool_and(v.idempotent
        and lower(v.key_header) = lower(k.key_header));

    return e.first_sent
        + make_interval(secs => v_window - k.send_deadline);
end
$$;

-- effect_repeatable(e, k, now): may e be sent again under its present key?
create or replace function interlock.effect_repeatable(
    e interlock.effects, k interlock.effect_kind_versions, p_now timestamptz)
returns boolean
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    return coalesce(p_now < interlock.effect_repeat_end(e, k), false);
end $$;

-- effect_sole(e): has e surely been sent no more than once in its round, so
-- that a refusal of that send is a definite no?
create or replace function interlock.effect_sole(e interlock.effects)
returns boolean
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return e.sends = 1 and not exists (
        select from interlock.sends s
        where s.tenant = e.tenant and s.effect_id = e.id
            and s.round = e.round and s.repeats > 0);
end
$$;

-- effect_note(e, from, moved, what, w): an entry of the history of e, which is
-- as it is now; from is its state before.  A contradiction that is in the
-- history already, told of the same reference again, is not one more.
create or replace function interlock.effect_note(
    e interlock.effects, p_from text, p_moved boolean, p_what text,
    w interlock.effect_word)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    if w.contradiction is not null and exists (
        select from interlock.effects_history h
        where h.tenant = e.tenant and h.effect_id = e.id
            and h.contradiction = w.contradiction
            and h.provider_ref is not distinct from w.provider_ref
            and h.send_id is not distinct from w.send_id)
    then
        w.contradiction := null;
    end if;

    insert into interlock.effects_history (tenant, at, effect_id, seq, moved,
        what, from_state, to_state, round, send_id, attempt_id, job_id,
        fence, said, provider_ref, detail, response_status, response_hash,
        requested_by, reason, token_id, token_name, contradiction)
    values (e.tenant, clock_timestamp(), e.id, e.seq, p_moved, p_what,
        p_from, e.state, e.round, w.send_id, w.attempt_id, w.job_id,
        w.fence, w.said, w.provider_ref, w.detail, w.response_status,
        sha256(w.response), w.requested_by, w.reason, w.token_id,
        w.token_name, w.contradiction);
end
$$;

-- effect_store(e): writes what may have changed of e.
create or replace function interlock.effect_store(e interlock.effects)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    update interlock.effects x
    set state = e.state, round = e.round, seq = e.seq, digest = e.digest,
        target = e.target, job_id = e.job_id, sends = e.sends,
        first_sent = e.first_sent, last_sent = e.last_sent,
        open_send = e.open_send, open_until = e.open_until,
        other_round = e.other_round, no_round = e.no_round,
        confirmed_round = e.confirmed_round,
        provider_ref = e.provider_ref, response_status = e.response_status,
        response_type = e.response_type, response = e.response,
        unknown_since = e.unknown_since, human_at = e.human_at,
        changed_at = e.changed_at
    where x.tenant = e.tenant and x.id = e.id;
end
$$;

-- effect_move(e, state, what, w): e comes into that state, and no send of it
-- is under way any more; what else has changed of it is in e already.
create or replace function interlock.effect_move(
    e interlock.effects, p_state text, p_what text, w interlock.effect_word)
returns interlock.effects
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_from  text := e.state;
begin
    e.state := p_state;
    e.seq := e.seq + 1;
    e.open_send := null;
    e.open_until := null;
    e.changed_at := clock_timestamp();

    perform interlock.effect_store(e);
    perform interlock.effect_note(e, v_from, true, p_what, w);
    return e;
end
$$;

-- effect_settled(e, state, what, w): effect_move into confirmed or failed,
-- with the answer of the provider: nothing about e is open any more.
create or replace function interlock.effect_settled(
    e interlock.effects, p_state text, p_what text, w interlock.effect_word)
returns interlock.effects
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    e.response_status := w.response_status;
    e.response_type := w.response_type;
    e.response := w.response;
    e.unknown_since := null;
    e.human_at := null;

    e := interlock.effect_move(e, p_state, p_what, w);
    perform interlock.check_drop(e.tenant, e.id);
    return e;
end
$$;

-- effect_confirm(e, round, what, w): somebody says that the effect happened,
-- in that round.
-- A confirmed one is not confirmed again: what is told is kept as evidence,
-- and is a contradiction if it is about another round or another reference:
-- then it happened twice.  A failed one becomes confirmed (nobody may send it
-- again), which is a contradiction too.  An earlier round, while a later one
-- is under way, is remembered: how that one ends decides.
create or replace function interlock.effect_confirm(
    e interlock.effects, p_round int, p_what text, w interlock.effect_word)
returns interlock.effects
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    if e.state = 'confirmed' then
        if p_round <> e.confirmed_round
            or w.provider_ref <> e.provider_ref
        then
            w.contradiction := 'confirmed_twice';
        elsif e.provider_ref is null and w.provider_ref is not null
            or e.response_status is null and w.response_status is not null
        then
            e.provider_ref := coalesce(e.provider_ref, w.provider_ref);
            if e.response_status is null then
                e.response_status := w.response_status;
                e.response_type := w.response_type;
                e.response := w.response;
            end if;
            perform interlock.effect_store(e);
        end if;

        perform interlock.effect_note(e, e.state, false, p_what, w);
        return e;
    end if;

    if e.open_send is not null and p_round < e.round then
        e.other_round := p_round;
        perform interlock.effect_store(e);
        perform interlock.effect_note(e, e.state, false, p_what, w);
        return e;
    end if;

    if e.other_round is not null and e.other_round <> p_round then
        w.contradiction := 'confirmed_twice';
    elsif e.state = 'failed' or p_round < e.round then
        w.contradiction := 'confirmed_after_failed';
    end if;

    e.confirmed_round := p_round;
    e.provider_ref := coalesce(w.provider_ref, e.provider_ref);
    return interlock.effect_settled(e, 'confirmed', p_what, w);
end
$$;

-- effect_fail(e, what, w): it is certain that this round did not happen.  If
-- an earlier one turned out to have happened meanwhile, the effect did.
create or replace function interlock.effect_fail(
    e interlock.effects, p_what text, w interlock.effect_word)
returns interlock.effects
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    if e.other_round is not null then
        e.open_send := null;
        return interlock.effect_confirm(e, e.other_round, p_what, w);
    end if;

    return interlock.effect_settled(e, 'failed', p_what, w);
end
$$;

-- effect_unclear(e, what, w): nobody knows whether this round happened.  Then
-- it is looked up, if its kind says how; if nobody can look, a human decides,
-- but not before the send's deadline, until which its owner may still speak,
-- nor while the provider would know our key again.  If the provider has said
-- meanwhile that it did not happen, effects_overdue settles it at once.
create or replace function interlock.effect_unclear(
    e interlock.effects, p_what text, w interlock.effect_word)
returns interlock.effects
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_now  timestamptz := clock_timestamp();
    k      interlock.effect_kind_versions;
begin
    if e.other_round is not null then
        e.open_send := null;
        return interlock.effect_confirm(e, e.other_round, p_what, w);
    end if;

    select * into strict k from interlock.effect_kind_row(e.tenant, e.kind);

    if e.no_round = e.round then
        e.human_at := v_now;
    elsif k.lookup is null then
        e.human_at := case
            when interlock.effect_repeatable(e, k, v_now)
            then interlock.effect_repeat_end(e, k)
            when p_what = 'outcome' then v_now
            else greatest(v_now, e.open_until) end;
    else
        e.human_at := null;
    end if;

    e.provider_ref := coalesce(w.provider_ref, e.provider_ref);
    e.unknown_since := coalesce(e.unknown_since, v_now);
    e := interlock.effect_move(e, 'unknown', p_what, w);
    perform interlock.effect_check(e, k, k.check_delay);
    return e;
end
$$;

-- effect_check(e, k, delay): opens the question whether e happened, if its
-- kind says how to ask it.  Answers whether it does.
create or replace function interlock.effect_check(
    e interlock.effects, k interlock.effect_kind_versions, p_delay int)
returns boolean
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_tenant  text;
begin
    if k.lookup is null then
        return false;
    end if;

    select t.name into strict v_tenant from interlock.tenants t
    where t.id = e.tenant;

    perform interlock.check_make(e.tenant, 'effect', e.id,
        (k.lookup::jsonb || jsonb_build_object('delay', k.check_delay,
            'backoff', k.check_backoff, 'max_checks', k.max_checks))::json,
        json_build_object('tenant', v_tenant, 'kind', e.kind, 'name', e.name,
            'target', e.target, 'effect_id', e.id, 'round', e.round::text,
            'idempotency_key', interlock.effect_key(e.id, e.round),
            'provider_ref', e.provider_ref, 'work_key', e.work_key,
            'job_id', e.job_id),
        e.seq, p_delay);
    return true;
end
$$;

-- effect_human(e, what, w): nobody but a human will find out.
create or replace function interlock.effect_human(
    e interlock.effects, p_what text, w interlock.effect_word)
returns interlock.effects
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    e.human_at := null;
    return interlock.effect_move(e, 'needs_human', p_what, w);
end
$$;

-- send_over(e, s, by, what): the send s ends without a word of its owner.  If
-- it is the one under way, the effect is unknown.
create or replace function interlock.send_over(
    e interlock.effects, s interlock.sends, p_by text, p_detail text)
returns interlock.effects
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    w  interlock.effect_word;
begin
    update interlock.sends x
    set outcome = 'unknown', ended_at = clock_timestamp(), ended_by = p_by
    where x.tenant = s.tenant and x.id = s.id;

    w.send_id := s.id;
    w.attempt_id := s.attempt_id;
    w.job_id := s.job_id;
    w.fence := s.fence;
    w.said := 'unknown';
    w.detail := p_detail;

    if e.open_send = s.id then
        return interlock.effect_unclear(e, p_by, w);
    end if;

    perform interlock.effect_note(e, e.state, false, p_by, w);
    return e;
end
$$;

-- effects_lock(tenants, attempts): locks the effects of which these attempts
-- have a send that is under way, in order.  For whoever is about to end these
-- attempts and holds their works and leases.
create or replace function interlock.effects_lock(
    p_tenant int[], p_attempt uuid[])
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
    perform from (
        select e.tenant, e.scope, e.name, e.id
        from unnest(p_tenant, p_attempt) u (tenant, attempt)
        cross join lateral (
            select x.effect_id from interlock.sends x
            where x.tenant = u.tenant and x.attempt_id = u.attempt
                and x.outcome is null) s
        cross join lateral (
            select x.tenant, x.scope, x.name, x.id from interlock.effects x
            where x.tenant = u.tenant and x.id = s.effect_id
            limit 1) e
        order by e.tenant, e.scope, e.name) k
    cross join lateral (
        select from interlock.effects x
        where x.tenant = k.tenant and x.id = k.id
        for no key update) l;
end
$$;

-- effects_try(tenants, attempts): as effects_lock, but waits for nothing.
-- Answers the attempts of which it did not get an effect.
create or replace function interlock.effects_try(
    p_tenant int[], p_attempt uuid[])
returns uuid[]
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_got   uuid[];
    v_busy  uuid[];
begin
    select array_agg(s.id) into v_got
    from unnest(p_tenant, p_attempt) u (tenant, attempt)
    cross join lateral (
        select x.id, x.effect_id from interlock.sends x
        where x.tenant = u.tenant and x.attempt_id = u.attempt
            and x.outcome is null) s
    cross join lateral (
        select from interlock.effects x
        where x.tenant = u.tenant and x.id = s.effect_id
        for no key update skip locked) l;

    select array_agg(u.attempt) into v_busy
    from unnest(p_tenant, p_attempt) u (tenant, attempt)
    cross join lateral (
        select x.id from interlock.sends x
        where x.tenant = u.tenant and x.attempt_id = u.attempt
            and x.outcome is null) s
    where v_got is null or s.id <> all (v_got);

    return coalesce(v_busy, '{}');
end
$$;

-- effects_go_on(tenant, key): an effect of this work key was settled: lets
-- those go on that waited for it.  Caller holds the work; it ends with
-- groups_settle (or groups_wake) for the groups.
create or replace function interlock.effects_go_on(
    p_tenant int, p_key text, out ended_jobs uuid[], out wake_kinds text[],
    out groups text[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_job  uuid;
    r      record;
begin
    ended_jobs := '{}';
    wake_kinds := '{}';
    groups := '{}';

    for v_job in
        select j.id from interlock.jobs_live j
        where j.tenant = p_tenant and j.work_key = p_key
            and j.status in ('queued', 'running', 'checking', 'held')
            and j.status = 'checking' and j.waits_on = 'effects'
        order by j.created_at
    loop
        select * into r from interlock.job_resume(p_tenant, v_job);
        ended_jobs := ended_jobs || r.ended_jobs;
        wake_kinds := wake_kinds || r.wake_kinds;
        groups := groups || r.groups;
    end loop;

    -- Whichever stands first in the line now: who was held may have given way.
    perform from interlock.jobs_live j
    where j.tenant = p_tenant and j.work_key = p_key
        and j.place = 'blocked'
    limit 1;
    if found then
        select * into r from interlock.key_go_on(p_tenant, p_key);
        ended_jobs := ended_jobs || r.ended_jobs;
        wake_kinds := wake_kinds || r.wake_kinds;
        groups := groups || r.groups;
    end if;
end
$$;

revoke all on function interlock.job_root(interlock.jobs) from public;
revoke all on function interlock.effect_scope_of(interlock.jobs) from public;
revoke all on function interlock.effect_key(uuid, int) from public;
revoke all on function interlock.effect_repeat_end(interlock.effects,
    interlock.effect_kind_versions) from public;
revoke all on function interlock.effect_repeatable(interlock.effects,
    interlock.effect_kind_versions, timestamptz) from public;
revoke all on function interlock.effect_sole(interlock.effects) from public;
revoke all on function interlock.effect_note(interlock.effects, text,
    boolean, text, interlock.effect_word) from public;
revoke all on function interlock.effect_store(interlock.effects) from public;
revoke all on function interlock.effect_move(interlock.effects, text, text,
    interlock.effect_word) from public;
revoke all on function interlock.effect_settled(interlock.effects, text, text,
    interlock.effect_word) from public;
revoke all on function interlock.effect_confirm(interlock.effects, int, text,
    interlock.effect_word) from public;
revoke all on function interlock.effect_fail(interlock.effects, text,
    interlock.effect_word) from public;
revoke all on function interlock.effect_unclear(interlock.effects, text,
    interlock.effect_word) from public;
revoke all on function interlock.effect_check(interlock.effects,
    interlock.effect_kind_versions, int) from public;
revoke all on function interlock.effect_human(interlock.effects, text,
    interlock.effect_word) from public;
revoke all on function interlock.send_over(interlock.effects,
    interlock.sends, text, text) from public;
revoke all on function interlock.effects_lock(int[], uuid[]) from public;
revoke all on function interlock.effects_try(int[], uuid[]) from public;
revoke all on function interlock.effects_go_on(int, text) from public;
