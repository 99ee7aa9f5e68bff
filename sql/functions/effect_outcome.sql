-- effect_outcome(…): who: interlockd's batcher of outcomes, for POST
-- /v1/effects/{id}/outcome and for the egress; one element a call.
--
-- An outcome is heard from whoever held the send, however late (G4): its
-- attempt may have ended long ago.  No lease is asked for.
--
-- Locks: works of the effects in key order, effects by (tenant, scope, name),
-- both FOR NO KEY UPDATE and waiting; last the limit groups that got room.
--
-- What counts:
--   confirmed  settles the effect, whatever it was; see effect_confirm
--   failed     settles it only as the word of the sole send of the present
--              round: if another send of the round may have gone through, a
--              refusal of this one says nothing about that
--   unknown    ends the send that is under way
-- Answers one row a call; ok, and state is the effect's state now.  replayed:
-- the same was said of this send before; state is what was answered then.
-- Who says failed and later confirmed is heard: it happened.  The other way
-- round what was confirmed stands, and so does the first reference; what is
-- said against it is kept as evidence, and counted.
-- Refuses: not-found; send-unknown (it is no send of this effect, or none is
-- named); send-not-yours (another attempt's); state-invalid; effect-conflict
-- (failed, after confirmed was said of this send; it is kept all the same).
create or replace function interlock.effect_outcome(
    p_tenant int[], p_attempt uuid[], p_effect uuid[], p_send uuid[],
    p_state text[], p_provider_ref text[], p_detail text[],
    p_response_status int[], p_response_type text[], p_response bytea[])
returns table (ord int, outcome text, detail text, replayed boolean,
    effect_id uuid, state text, job_id uuid, ended_jobs uuid[],
    wake_kinds text[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_group  text[] := '{}';
    v_gten   int[] := '{}';
    e        interlock.effects;
    w        interlock.effect_word;
    a        record;
    g        record;
    r        record;
begin
    perform set_config('synchronous_commit', 'on', true);

    perform interlock.effects_hold(p_tenant, p_effect);

    for r in
        select u.*
        from unnest(p_tenant, p_attempt, p_effect, p_send, p_state,
                    p_provider_ref, p_detail, p_response_status,
                    p_response_type, p_response)
            with ordinality as u (tenant, attempt, effect, send, state,
                provider_ref, detail, response_status, response_type,
                response, ord)
        order by u.ord
    loop
        ord := r.ord;
        replayed := false;
        detail := null;
        effect_id := r.effect;
        state := null;
        job_id := null;
        ended_jobs := '{}';
        wake_kinds := '{}';

        select * into e from interlock.effects x
        where x.tenant = r.tenant and x.id = r.effect;

        w := null;
        w.send_id := r.send;
        w.attempt_id := r.attempt;
        w.said := r.state;
        w.provider_ref := left(nullif(r.provider_ref, ''), 1024);
        w.detail := left(r.detail, 4096);
        w.response_status := r.response_status;
        w.response_type := r.response_type;
        w.response := r.response;
        if octet_length(w.response) > 65536 then
            w.response := null;
        end if;

        select * into a from interlock.effect_hear(e, w);
        outcome := a.outcome;
        detail := a.detail;
        replayed := a.replayed;
        state := a.state;
        job_id := a.job_id;

        if a.settled then
            select * into g
            from interlock.effects_go_on(e.tenant, e.work_key);
            ended_jobs := g.ended_jobs;
            wake_kinds := g.wake_kinds;
            v_group := v_group || g.groups;
            v_gten := v_gten
                || array_fill(r.tenant, array[cardinality(g.groups)]);
        end if;

        -- Of the groups the last row of a tenant tells.
        if cardinality(v_group) > 0 and r.ord = (
            select max(u.i) from unnest(p_tenant) with ordinality u (t, i)
            where u.t = r.tenant)
        then
            wake_kinds := interlock.groups_wake(r.tenant, array(
                select u.g from unnest(v_gten, v_group) u (t, g)
                where u.t = r.tenant), wake_kinds);
        end if;

        return next;
    end loop;
end
$$;

-- effects_hold(tenants, effects): locks the works of these effects in key
-- order, then the effects in their order.
create or replace function interlock.effects_hold(
    p_tenant int[], p_effect uuid[])
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
        select distinct e.tenant, e.work_key
        from unnest(p_tenant, p_effect) u (tenant, effect)
        cross join lateral (
            select x.tenant, x.work_key from interlock.effects x
            where x.tenant = u.tenant and x.id = u.effect
            limit 1) e
        order by e.tenant, e.work_key) k
    cross join lateral (
        select from interlock.works w
        where w.tenant = k.tenant and w.work_key = k.work_key
        for no key update) w;

    perform from (
        select distinct e.tenant, e.scope, e.name, e.id
        from unnest(p_tenant, p_effect) u (tenant, effect)
        cross join lateral (
            select x.tenant, x.scope, x.name, x.id from interlock.effects x
            where x.tenant = u.tenant and x.id = u.effect
            limit 1) e
        order by e.tenant, e.scope, e.name) k
    cross join lateral (
        select from interlock.effects x
        where x.tenant = k.tenant and x.id = k.id
        for no key update) l;
end
$$;

-- effect_hear(e, w): one outcome, of an effect that is locked.  settled says
-- whether the effect was unsettled before and is not any more.
create or replace function interlock.effect_hear(
    e interlock.effects, w interlock.effect_word, out outcome text,
    out detail text, out replayed boolean, out state text, out job_id uuid,
    out settled boolean)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_now     timestamptz := clock_timestamp();
    v_digest  bytea := sha256(convert_to(concat_ws('/', w.said,
        coalesce(length(w.provider_ref), -1), w.provider_ref,
        coalesce(length(w.detail), -1), w.detail, w.response_status),
        'UTF8') || coalesce(sha256(w.response), ''));
    s         interlock.sends;
    f         interlock.effects;
begin
    replayed := false;
    settled := false;

    if e.id is null then
        outcome := 'not-found';
        return;
    end if;

    state := e.state;
    job_id := e.job_id;

    select * into s from interlock.sends x
    where x.tenant = e.tenant and x.id = w.send_id;

    if not found or s.effect_id <> e.id then
        outcome := 'send-unknown';
        detail := '"send_id" names no send of this effect';
        return;
    elsif s.attempt_id is distinct from w.attempt_id then
        outcome := 'send-not-yours';
        detail := 'this send was given to another attempt';
        return;
    elsif w.said is null or w.said not in ('confirmed', 'failed', 'unknown')
    then
        outcome := 'state-invalid';
        detail := '"state" must be one of confirmed, failed, unknown';
        return;
    end if;

    job_id := s.job_id;
    w.job_id := s.job_id;
    w.fence := s.fence;

    if s.heard_digest = v_digest then
        outcome := 'ok';
        replayed := true;
        state := s.answered;
        return;
    end if;

    if s.heard in ('confirmed', 'failed') and w.said = 'unknown' then
        outcome := 'ok';
        return;
    elsif s.heard = 'confirmed' and w.said = 'failed' then
        outcome := 'effect-conflict';
        detail := 'confirmed was said of this send before';
        perform interlock.effect_told(e, s, w);
        return;
    end if;

    f := interlock.effect_told(e, s, w);
    outcome := 'ok';
    state := f.state;
    settled := e.state not in ('confirmed', 'failed')
        and f.state in ('confirmed', 'failed');

    update interlock.sends x
    set outcome = case when x.outcome is null or w.said <> 'unknown'
            then w.said else x.outcome end,
        ended_at = coalesce(x.ended_at, v_now),
        ended_by = coalesce(x.ended_by, 'owner'),
        heard = case when w.said <> 'unknown' then w.said
            else coalesce(x.heard, w.said) end,
        heard_at = v_now, heard_digest = v_digest, answered = f.state,
        provider_ref = case
            when x.heard = 'confirmed'
            then coalesce(x.provider_ref, w.provider_ref)
            else coalesce(w.provider_ref, x.provider_ref) end
    where x.tenant = s.tenant and x.id = s.id;
end
$$;

-- effect_told(e, s, w): what the word w of the owner of the send s makes of
-- the effect.
create or replace function interlock.effect_told(
    e interlock.effects, s interlock.sends, w interlock.effect_word)
returns interlock.effects
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_open  boolean := coalesce(e.open_send = s.id, false);
begin
    if w.said = 'confirmed' then
        return interlock.effect_confirm(e, s.round, 'outcome', w);

    elsif w.said = 'failed' and s.round = e.round
        and interlock.effect_sole(e)
        and e.state in ('intended', 'unknown', 'needs_human')
    then
        return interlock.effect_fail(e, 'outcome', w);

    elsif v_open then
        return interlock.effect_unclear(e, 'outcome', w);
    end if;

    -- Evidence.  That the only send there was did not happen, after somebody
    -- else said that it did, is a contradiction.
    if w.said = 'failed' and s.round = e.round
        and interlock.effect_sole(e)
        and e.state = 'confirmed'
    then
        w.contradiction := 'failed_after_confirmed';
    end if;

    perform interlock.effect_note(e, e.state, false, 'outcome', w);
    return e;
end
$$;

revoke all on function interlock.effect_outcome(int[], uuid[], uuid[],
    uuid[], text[], text[], text[], int[], text[], bytea[]) from public;
revoke all on function interlock.effects_hold(int[], uuid[]) from public;
revoke all on function interlock.effect_hear(interlock.effects,
    interlock.effect_word) from public;
revoke all on function interlock.effect_told(interlock.effects,
    interlock.sends, interlock.effect_word) from public;
grant execute on function interlock.effect_outcome(int[], uuid[], uuid[],
    uuid[], text[], text[], text[], int[], text[], bytea[])
    to interlock_service;
