-- effect_begin(…): who: interlockd's batcher of begins, for POST /v1/effects
-- and for the egress; one element a call.  Commits the intent before anything
-- is sent.
--
-- Locks: leases by id (FOR NO KEY UPDATE), then effects by (tenant, scope,
-- name): missing ones inserted in that order, then all locked in that order
-- (FOR NO KEY UPDATE).  No work: whatever takes the right to act from an
-- attempt (cancel, replace, recovery, its own end) locks its lease, so a
-- begin is before it, and is seen by it, or after it, and is refused.  What
-- others decide by a work's effects holds all the same: a begin only makes an
-- effect intended, by an attempt that lives, and this holds nobody back.
-- Judged in later statements, with a clock read after the last wait.
--
-- p_call: the id that this call was given before its first try; p_named: by
-- its caller (the egress, interlock effect run, a worker that asks for it),
-- else by interlockd.  The same call gets the same send again, after a lost
-- COMMIT or a lost answer, as long as its deadline is ahead.
-- Any other begin meanwhile is in_progress: who repeats it may be a worker
-- that was started again, and has sent already.  Only where nobody named the
-- calls and the provider honours the key does the same attempt get its send
-- again; that it may go out twice is kept (repeats), for then a refusal is no
-- definite no.
--
-- Answers one row a call, ok with a decision:
--   send               may be sent now, once, as send_id, within deadline_ms,
--                      with the provider's idempotency_key
--   already_confirmed  has happened: provider_ref, and the stored answer
--   in_progress        somebody's send is under way
--   check_first        it is not known whether it happened: it is being
--                      looked up
--   needs_human        nobody can look it up: a human decides
-- state is the effect's state after the call.
-- Refuses, in this order: lease-lost, fence-stale, job-canceled,
-- lease-expired; effect-name-invalid, effect-kind-unknown,
-- compensates-unknown, effect-mismatch (the name is another request's, or of
-- another kind), lease-too-short (for a send, less of the lease remains than
-- the send deadline).
create or replace function interlock.effect_begin(
    p_tenant int[], p_job uuid[], p_attempt uuid[], p_fence bigint[],
    p_name text[], p_kind text[], p_target text[], p_digest bytea[],
    p_compensates uuid[], p_call uuid[] default null,
    p_named boolean[] default null)
returns setof interlock.effect_answer
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_calls  interlock.effect_call[] := '{}';
    c        interlock.effect_call;
    a        interlock.effect_answer;
    v_new    uuid[];
begin
    perform set_config('synchronous_commit', 'on', true);

    perform from (
        select distinct u.tenant, u.attempt
        from unnest(p_tenant, p_attempt) u (tenant, attempt)
        order by u.tenant, u.attempt) k
    cross join lateral (
        select from interlock.leases x
        where x.tenant = k.tenant and x.attempt_id = k.attempt
        for no key update) l;

    for c in
        select u.ord::int, u.tenant, u.job, u.attempt, u.fence, u.name,
            u.kind, u.target, u.digest, u.compensates, u.call_id,
            coalesce(u.named, u.call_id is not null)
        from unnest(p_tenant, p_job, p_attempt, p_fence, p_name, p_kind,
                    p_target, p_digest, p_compensates, p_call, p_named)
            with ordinality as u (tenant, job, attempt, fence, name, kind,
                target, digest, compensates, call_id, named, ord)
        order by u.ord
    loop
        v_calls := v_calls || interlock.effect_judge(c);
    end loop;

    v_new := interlock.effects_insert(v_calls);

    perform from (
        select distinct u.tenant, u.scope, u.name
        from unnest(v_calls) u
        where u.outcome is null
        order by u.tenant, u.scope, u.name) k
    cross join lateral (
        select from interlock.effects x
        where x.tenant = k.tenant and x.scope = k.scope and x.name = k.name
        for no key update) l;

    foreach c in array v_calls loop
        a := interlock.effect_begin_one(c, v_new);
        if a.decision = 'send' then
            v_new := array_remove(v_new, a.effect_id);
        end if;
        return next a;
    end loop;

    if v_new <> '{}' then
        -- Made, and then the lease had ended while we waited.
        foreach c in array v_calls loop
            delete from interlock.effects x
            where x.tenant = c.tenant and x.scope = c.scope
                and x.name = c.name and x.id = any (v_new);
        end loop;
    end if;
end
$$;

-- effect_judge(c): the fence test of G4, and what is wrong with the call
-- itself; for a good one its scope and its kind's policy.  The caller holds
-- the lease.
create or replace function interlock.effect_judge(c interlock.effect_call)
returns interlock.effect_call
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    l  interlock.leases;
    j  interlock.jobs;
begin
    select * into l from interlock.leases x
    where x.tenant = c.tenant and x.attempt_id = c.attempt;

    c.work_key := l.work_key;
    c.ends := l.expires_at;

    c.outcome := case
        when not found or l.job_id <> c.job then 'lease-lost'
        when l.fence <> c.fence then 'fence-stale'
        when l.cancel_requested then 'job-canceled'
        when l.expires_at <= clock_timestamp() then 'lease-expired'
        when c.name is null or c.name = '' or octet_length(c.name) > 256
            or c.name ~ '[[:cntrl:]]' then 'effect-name-invalid' end;

    if c.outcome is not null then
        c.detail := case c.outcome when 'effect-name-invalid'
            then 'an effect''s name has 1 to 256 bytes and no controls' end;
        return c;
    end if;

    perform from interlock.effect_kinds k
    where k.tenant = c.tenant and k.name = c.kind and not k.deleted;
    if not found then
        c.outcome := 'effect-kind-unknown';
        c.detail := format('no effect kind "%s"', left(c.kind, 64));
        return c;
    end if;

    c.policy := (select v from interlock.effect_kind_row(c.tenant, c.kind) v);

    if c.compensates is not null then
        perform from interlock.effects e
        where e.tenant = c.tenant and e.id = c.compensates;
        if not found then
            c.outcome := 'compensates-unknown';
            c.detail := '"compensates" names no effect';
            return c;
        end if;
    end if;

    select * into strict j from interlock.jobs_live x
    where x.tenant = c.tenant and x.id = c.job;
    select s.scope_kind, s.scope into c.scope_kind, c.scope
    from interlock.effect_scope_of(j) s;

    return c;
end
$$;

-- effects_insert(calls): makes the effects that are not there yet, in order,
-- with their first send.  Answers which were made.
create or replace function interlock.effects_insert(
    p_calls interlock.effect_call[])
returns uuid[]
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_now  timestamptz := clock_timestamp();
    v_new  uuid[];
begin
    with made as (
        insert into interlock.effects (tenant, id, scope, scope_kind, name,
            kind, work_key, job_id, state, round, seq, digest, target,
            compensates, sends, first_sent, last_sent, open_send, open_until,
            changed_at, created_at)
        select u.tenant, gen_random_uuid(), u.scope, u.scope_kind, u.name,
            u.kind, u.work_key, u.job, 'intended', 1, 1, u.digest, u.target,
            u.compensates, 1, v_now, v_now, gen_random_uuid(),
            v_now + make_interval(secs => (u.policy).send_deadline),
            v_now, v_now
        from (select distinct on (x.tenant, x.scope, x.name) x.*
              from unnest(p_calls) x
              where x.outcome is null and x.ends
                  >= v_now + make_interval(secs => (x.policy).send_deadline)
              order by x.tenant, x.scope, x.name, x.ord) u
        where not exists (
            select from interlock.effects e
            where e.tenant = u.tenant and e.scope = u.scope
                and e.name = u.name)
        order by u.tenant, u.scope, u.name
        on conflict (tenant, scope, name) where name is not null do nothing
        returning id)
    select array_agg(m.id) into v_new from made m;

    return coalesce(v_new, '{}');
end
$$;

-- effect_begin_one(c, new): the answer to a call that was judged, and whose
-- effect is locked.  new are the effects that this batch made.
create or replace function interlock.effect_begin_one(
    c interlock.effect_call, p_new uuid[])
returns interlock.effect_answer
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_now  timestamptz := clock_timestamp();
    a      interlock.effect_answer;
    e      interlock.effects;
    s      interlock.sends;
    w      interlock.effect_word;
begin
    a.ord := c.ord;
    a.outcome := coalesce(c.outcome, 'ok');
    a.detail := c.detail;
    a.job_id := c.job;
    a.work_key := c.work_key;
    if c.outcome is not null then
        return a;
    end if;

    select * into e from interlock.effects x
    where x.tenant = c.tenant and x.scope = c.scope and x.name = c.name;

    if e.id is not null then
        select * into s from interlock.sends x
        where x.tenant = e.tenant and x.id = e.open_send;
    end if;

    if e.id is null then
        -- Too little of the lease is left to make it.
        a.outcome := interlock.effect_late(c, v_now);
        if a.outcome = 'ok' then
            raise exception 'effect "%" was not made', c.name;
        end if;
        return a;
    end if;

    a.effect_id := e.id;
    a.state := e.state;
    if e.state = 'intended' and e.open_until <= v_now then
        a.state := 'unknown';
    end if;

    a.detail := interlock.effect_differs(c, e);
    if a.detail is not null then
        a.outcome := 'effect-mismatch';
        return a;
    end if;

    if s.id is null and e.id = any (p_new) then
        a.outcome := interlock.effect_late(c, v_now);
        if a.outcome <> 'ok' then
            return a;
        end if;
        e.job_id := c.job;
        return interlock.effect_send(a, c, e, v_now);
    end if;

    a.decision := case
        when a.state = 'confirmed' then 'already_confirmed'
        when a.state = 'needs_human' then 'needs_human'
        when a.state = 'failed' then 'send'
        when a.state = 'intended' and s.attempt_id = c.attempt
            and s.call_id = c.call_id then 'send'
        when a.state = 'intended' and s.attempt_id = c.attempt
            and not s.call_named and not c.call_named
            and interlock.effect_repeatable(e, c.policy, v_now) then 'send'
        when a.state = 'intended' then 'in_progress'
        when interlock.effect_repeatable(e, c.policy, v_now) then 'send'
        when (c.policy).lookup is not null then 'check_first'
        else 'needs_human' end;

    if a.decision = 'needs_human' and e.state = 'unknown'
        and e.human_at > v_now
    then
        -- It was to be sent again, and its kind says another thing by now.
        e.human_at := v_now;
        perform interlock.effect_store(e);
        return a;
    elsif a.decision = 'already_confirmed' then
        a.provider_ref := e.provider_ref;
        a.response_status := e.response_status;
        a.response_type := e.response_type;
        a.response := e.response;
        return a;
    elsif a.decision <> 'send' then
        return a;
    elsif a.state = 'intended' then
        if s.call_id is distinct from c.call_id or c.call_id is null then
            update interlock.sends x
            set call_id = c.call_id, repeats = x.repeats + 1
            where x.tenant = s.tenant and x.id = s.id;
        end if;
        if e.no_round is not null then
            e.no_round := null;     -- said of what went out before
            perform interlock.effect_store(e);
        end if;
        -- It goes out as it was permitted, whatever its kind says by now.
        c.policy := (
            select v from interlock.effect_kind_versions v
            where v.tenant = s.tenant and v.name = e.kind
                and v.version = s.kind_version);
        return interlock.effect_may(a, c, e, v_now);
    end if;

    a.outcome := interlock.effect_late(c, v_now);
    if a.outcome <> 'ok' then
        a.decision := null;
        return a;
    end if;

    if e.state = 'intended' then
        -- Its deadline is over, and its provider honours the key.
        update interlock.sends x
        set outcome = 'unknown', ended_at = v_now, ended_by = 'deadline'
        where x.tenant = s.tenant and x.id = s.id;

        w.send_id := s.id;
        w.attempt_id := s.attempt_id;
        w.job_id := s.job_id;
        w.fence := s.fence;
        w.said := 'unknown';
        perform interlock.effect_note(e, e.state, false, 'deadline', w);
    end if;

    if e.state = 'failed' then
        e.round := e.round + 1;
        e.provider_ref := null;
        e.digest := c.digest;
        e.sends := 0;
        e.first_sent := v_now;
    end if;

    e.digest := coalesce(e.digest, c.digest);
    e.target := coalesce(c.target, e.target);
    e.open_send := gen_random_uuid();
    e.seq := e.seq + 1;
    e.sends := e.sends + 1;
    e.job_id := c.job;
    e.last_sent := v_now;
    e.open_until := v_now + make_interval(secs => (c.policy).send_deadline);
    e.no_round := null;
    e.unknown_since := null;
    e.human_at := null;
    e.changed_at := v_now;

    return interlock.effect_send(a, c, e, v_now);
end
$$;

-- effect_late(c, now): is enough of the lease left to send?  The lease is
-- locked, so only the clock can have moved since it was judged.
create or replace function interlock.effect_late(
    c interlock.effect_call, p_now timestamptz)
returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when c.ends <= p_now then 'lease-expired'
        when c.ends < p_now + make_interval(secs => (c.policy).send_deadline)
        then 'lease-too-short' else 'ok' end;
end $$;

-- effect_differs(c, e): in what a call differs from the effect of that name,
-- or null.  After a definite no the next round may be another request.
create or replace function interlock.effect_differs(
    c interlock.effect_call, e interlock.effects)
returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when e.kind <> c.kind
        then format('the effect of this name is of kind "%s"', e.kind)
        when e.compensates <> c.compensates
        then 'the effect of this name compensates another one'
        when e.state <> 'failed' and e.digest <> c.digest
        then 'the effect of this name was begun with another request' end;
end $$;

-- effect_send(a, c, e, now): stores a new send of e, which is as it is to be;
-- what e was before is what is stored.
create or replace function interlock.effect_send(
    a interlock.effect_answer, c interlock.effect_call, e interlock.effects,
    p_now timestamptz)
returns interlock.effect_answer
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_from  text;
    v_n     int;
    w       interlock.effect_word;
begin
    if e.seq > 1 then
        select x.state into v_from from interlock.effects x
        where x.tenant = e.tenant and x.id = e.id;
        select x.n into v_n from interlock.sends x
        where x.tenant = e.tenant and x.effect_id = e.id
        order by x.n desc limit 1;
        e.state := 'intended';
        perform interlock.effect_store(e);
    end if;

    insert into interlock.sends (tenant, id, effect_id, n, round, attempt_id,
        job_id, fence, kind_version, call_id, call_named, begun_at,
        deadline)
    values (e.tenant, e.open_send, e.id, coalesce(v_n, 0) + 1, e.round,
        c.attempt, c.job, c.fence, (c.policy).version, c.call_id,
        c.call_named, p_now, e.open_until);

    w.send_id := e.open_send;
    w.attempt_id := c.attempt;
    w.job_id := c.job;
    w.fence := c.fence;
    w.said := 'intended';
    perform interlock.effect_note(e, v_from, true, 'send', w);

    a.effect_id := e.id;
    a.decision := 'send';
    return interlock.effect_may(a, c, e, p_now);
end
$$;

-- effect_may(a, c, e, now): the answer that permits the open send of e.
create or replace function interlock.effect_may(
    a interlock.effect_answer, c interlock.effect_call, e interlock.effects,
    p_now timestamptz)
returns interlock.effect_answer
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    a.state := 'intended';
    a.send_id := e.open_send;
    a.idempotency_key := interlock.effect_key(e.id, e.round);
    a.deadline_ms := floor(extract(epoch from e.open_until - p_now) * 1000);
    a.key_header := (c.policy).key_header;
    a.outcome_map := (c.policy).outcome_map;
    return a;
end
$$;

revoke all on function interlock.effect_begin(int[], uuid[], uuid[],
    bigint[], text[], text[], text[], bytea[], uuid[], uuid[], boolean[])
    from public;
revoke all on function interlock.effect_judge(interlock.effect_call)
    from public;
revoke all on function interlock.effects_insert(interlock.effect_call[])
    from public;
revoke all on function interlock.effect_begin_one(interlock.effect_call,
    uuid[]) from public;
revoke all on function interlock.effect_late(interlock.effect_call,
    timestamptz) from public;
revoke all on function interlock.effect_differs(interlock.effect_call,
    interlock.effects) from public;
revoke all on function interlock.effect_send(interlock.effect_answer,
    interlock.effect_call, interlock.effects, timestamptz) from public;
revoke all on function interlock.effect_may(interlock.effect_answer,
    interlock.effect_call, interlock.effects, timestamptz) from public;
grant execute on function interlock.effect_begin(int[], uuid[], uuid[],
    bigint[], text[], text[], text[], bytea[], uuid[], uuid[], boolean[])
    to interlock_service;
