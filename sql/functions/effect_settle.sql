-- effect_settle.sql: how an effect whose outcome is not known is settled
-- without its owner: by a look-up, by a human, by the clock.

-- effect_looked_up(tenant, effect, seq, answer, detail, ref, started_at):
-- helper of check_tell: what a look-up said that was started then, about the
-- effect as it was at seq: found, not_found, unclear; or exhausted: that was
-- the last one.  An effect that has moved since (sent again, settled) has
-- nothing to do with it: gone.
--   found      confirmed
--   not_found  proves nothing by itself: the request may still be on its way.
--              Only if the kind's look-up is authoritative, and this one was
--              started when settle_after had passed since the round's last
--              send (and the deadline of those whose owner said nothing), the
--              round has failed.  Until then, again.
--   exhausted  needs_human, or again if its kind says keep_checking
-- Locks: the effect (FOR NO KEY UPDATE).  The caller holds the work and ends
-- with groups_settle.
create or replace function interlock.effect_looked_up(
    p_tenant int, p_effect uuid, p_seq bigint, p_answer text, p_detail text,
    p_ref text, p_started_at timestamptz)
returns interlock.check_result
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_sure  timestamptz;
    a       interlock.check_result;
    e       interlock.effects;
    k       interlock.effect_kind_versions;
    w       interlock.effect_word;
    g       record;
begin
    perform from interlock.effects x
    where x.tenant = p_tenant and x.id = p_effect
    for no key update;

    select * into e from interlock.effects x
    where x.tenant = p_tenant and x.id = p_effect;

    a.outcome := 'gone';
    if not found or e.seq <> p_seq
        or e.state not in ('unknown', 'needs_human')
    then
        return a;
    end if;

    select * into strict k from interlock.effect_kind_row(e.tenant, e.kind);

    w.said := p_answer;
    w.provider_ref := left(nullif(p_ref, ''), 1024);
    w.detail := left(p_detail, 4096);
    w.send_id := interlock.last_send(e);

    if p_answer = 'found' then
        perform interlock.effect_confirm(e, e.round, 'look-up', w);
        a.outcome := 'found';

    elsif p_answer = 'not_found' and k.authoritative then
        v_sure := interlock.round_over(e, k);
        if p_started_at >= v_sure then
            perform interlock.effect_fail(e, 'look-up', w);
            a.outcome := 'not_found';
        else
            a.outcome := 'again';
            a.due_at := v_sure;
        end if;

    elsif p_answer = 'exhausted' and k.on_exhausted = 'needs_human' then
        if e.state = 'unknown' then
            perform interlock.effect_human(e, 'human', w);
        end if;
        a.outcome := 'exhausted';

    else
        a.outcome := 'again';
    end if;

    if a.outcome in ('found', 'not_found') then
        select * into g from interlock.effects_go_on(e.tenant, e.work_key);
        a.ended_jobs := g.ended_jobs;
        a.wake_kinds := g.wake_kinds;
        a.groups := g.groups;
    end if;

    return a;
end
$$;

-- round_over(e, k): from when on it counts that an authoritative look-up does
-- not find the round's sends.
create or replace function interlock.round_over(
    e interlock.effects, k interlock.effect_kind_versions)
returns timestamptz
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return greatest(
        e.last_sent + make_interval(secs => k.settle_after),
        interlock.round_silent(e));
end
$$;

-- round_silent(e): until when sends of the round may still go out of which
-- their owners have said nothing, whether these still own their jobs or not;
-- or null.
create or replace function interlock.round_silent(e interlock.effects)
returns timestamptz
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return (select max(s.deadline) from interlock.sends s
            where s.tenant = e.tenant and s.effect_id = e.id
                and s.round = e.round and s.heard is null);
end
$$;

-- last_send(e): the last send there was.
create or replace function interlock.last_send(e interlock.effects)
returns uuid
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return (select s.id from interlock.sends s
            where s.tenant = e.tenant and s.effect_id = e.id
            order by s.n desc limit 1);
end
$$;

-- effect_resolve(…): who: interlockd, POST /v1/effects/{id}/resolve: a human
-- says what became of an effect that nobody else could settle.
--   happened      confirmed
--   not_happened  failed: a new round may be sent
--   send_again    as not_happened; but if its provider still honours the
--                 present key, the same round may be sent again under it
-- Locks: the work, the effect (FOR NO KEY UPDATE), last limit groups.
-- Answers: one row; problem null, doc the effect; the kinds of which jobs may
-- start now; the jobs that ended.  Leaves a row in actions; p_call: see
-- action_made.
-- Refuses: not-found; field-invalid (no such outcome, no name or reason);
-- effect-in-progress (a send is under way, its deadline ahead; or, but for
-- happened, after which nothing is sent, one whose attempt has ended without a
-- word of it: its owner may send until then); effect-settled (confirmed; or failed, but for happened).
create or replace function interlock.effect_resolve(
    p_tenant int, p_effect uuid, p_outcome text, p_requested_by text,
    p_reason text, p_token_id bigint, p_token_name text,
    p_call uuid default null)
returns table (problem text, detail text, doc text, wake_kinds text[],
    ended_jobs uuid[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    e        interlock.effects;
    v_until  timestamptz;
    v_state  text;
    r        record;
begin
    perform set_config('synchronous_commit', 'on', true);

    wake_kinds := '{}';
    ended_jobs := '{}';

    detail := interlock.who_trouble(p_requested_by, p_reason);
    if detail is not null then
        problem := 'field-invalid';
        return next;
        return;
    elsif p_outcome is null
        or p_outcome not in ('happened', 'not_happened', 'send_again')
    then
        problem := 'field-invalid';
        detail := '"outcome" must be one of happened, not_happened, '
            'send_again';
        return next;
        return;
    end if;

    perform interlock.effects_hold(array[p_tenant], array[p_effect]);

    select * into e from interlock.effects x
    where x.tenant = p_tenant and x.id = p_effect;

    if not found then
        problem := 'not-found';
        detail := 'no such effect';
        return next;
        return;
    end if;

    if interlock.action_made(p_tenant, p_call) then
        wake_kinds := array(
            select j.kind from interlock.jobs j
            where j.tenant = p_tenant and j.id = e.job_id);
        doc := interlock.effect_doc(e);
        return next;
        return;
    end if;

    v_until := case
        when e.state = 'intended' and p_outcome = 'happened'
        then e.open_until
        when e.state in ('intended', 'unknown', 'needs_human')
            and p_outcome <> 'happened'
        then interlock.round_silent(e) end;

    if v_until > clock_timestamp() then
        problem := 'effect-in-progress';
        detail := format('a send may be under way until %s',
                         interlock.ts(v_until));
    elsif e.state = 'confirmed'
        or (e.state = 'failed' and p_outcome <> 'happened')
    then
        problem := 'effect-settled';
        detail := format('the effect is %s', e.state);
    end if;

    if problem is not null then
        doc := interlock.effect_doc(e);
        return next;
        return;
    end if;

    v_state := e.state;
    e := interlock.effect_decide(e, p_outcome, p_requested_by, p_reason,
                                 p_token_id, p_token_name);

    insert into interlock.actions (tenant, what, target, token_id,
        token_name, requested_by, reason, call_id, detail)
    values (p_tenant, 'effect_resolve', p_effect::text, p_token_id,
        p_token_name, p_requested_by, p_reason, p_call, json_build_object('outcome',
            p_outcome, 'before', v_state, 'after', e.state));

    select * into r from interlock.effects_go_on(e.tenant, e.work_key);
    ended_jobs := r.ended_jobs;
    wake_kinds := interlock.groups_wake(p_tenant, r.groups, r.wake_kinds);
    doc := interlock.effect_doc(e);
    return next;
end
$$;

-- effect_decide(e, outcome, …): what a human's word makes of the effect.
create or replace function interlock.effect_decide(
    e interlock.effects, p_outcome text, p_requested_by text, p_reason text,
    p_token_id bigint, p_token_name text)
returns interlock.effects
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_from  text;
    s       interlock.sends;
    k       interlock.effect_kind_versions;
    w       interlock.effect_word;
begin
    select * into strict k from interlock.effect_kind_row(e.tenant, e.kind);

    if e.state = 'intended' then
        select * into strict s from interlock.sends x
        where x.tenant = e.tenant and x.id = e.open_send;
        e := interlock.send_over(e, s, 'deadline', null);
    end if;

    w.said := p_outcome;
    w.requested_by := p_requested_by;
    w.reason := p_reason;
    w.token_id := p_token_id;
    w.token_name := p_token_name;

    if e.state = 'confirmed' then
        -- By what was known of an earlier round.
        return e;
    elsif p_outcome = 'happened' then
        return interlock.effect_confirm(e, e.round, 'resolve', w);
    elsif p_outcome = 'not_happened'
        or not interlock.effect_repeatable(e, k, clock_timestamp())
    then
        return interlock.effect_fail(e, 'resolve', w);
    end if;

    v_from := e.state;
    e.state := 'unknown';
    e.seq := e.seq + 1;
    e.no_round := null;
    e.changed_at := clock_timestamp();
    if k.lookup is null then
        e.human_at := interlock.effect_repeat_end(e, k);
    end if;
    perform interlock.effect_store(e);
    perform interlock.effect_note(e, v_from, true, 'resolve', w);
    perform interlock.effect_check(e, k, k.check_delay);
    return e;
end
$$;

-- effect_check_now(…): who: interlockd, POST /v1/effects/{id}/check: looks
-- now, by the present policy of its kind.
-- Locks: the work, the effect (FOR NO KEY UPDATE), last limit groups.
-- Answers: one row; problem null, doc the effect.  Leaves a row in actions;
-- p_call: see action_made.
-- Refuses: not-found; effect-settled; effect-in-progress; check-not-possible
-- (its kind has no look-up).
create or replace function interlock.effect_check_now(
    p_tenant int, p_effect uuid, p_requested_by text, p_reason text,
    p_token_id bigint, p_token_name text, p_call uuid default null)
returns table (problem text, detail text, doc text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    e  interlock.effects;
    k  interlock.effect_kind_versions;
    s  interlock.sends;
    w  interlock.effect_word;
    g  record;
begin
    perform set_config('synchronous_commit', 'on', true);

    perform interlock.effects_hold(array[p_tenant], array[p_effect]);

    select * into e from interlock.effects x
    where x.tenant = p_tenant and x.id = p_effect;

    if not found then
        problem := 'not-found';
        detail := 'no such effect';
        return next;
        return;
    end if;

    if interlock.action_made(p_tenant, p_call) then
        doc := interlock.effect_doc(e);
        return next;
        return;
    end if;

    select * into strict k from interlock.effect_kind_row(e.tenant, e.kind);

    if e.state in ('confirmed', 'failed') then
        problem := 'effect-settled';
        detail := format('the effect is %s', e.state);
    elsif e.state = 'intended' and e.open_until > clock_timestamp() then
        problem := 'effect-in-progress';
        detail := format('a send may be under way until %s',
                         interlock.ts(e.open_until));
    elsif k.lookup is null then
        problem := 'check-not-possible';
        detail := format('effect kind "%s" has no look-up', e.kind);
    end if;

    if problem is null and e.state = 'intended' then
        select * into strict s from interlock.sends x
        where x.tenant = e.tenant and x.id = e.open_send;
        e := interlock.send_over(e, s, 'deadline', null);
        if e.state = 'confirmed' then
            -- By what was known of an earlier round.
            problem := 'effect-settled';
            detail := 'the effect is confirmed';
            select * into g
            from interlock.effects_go_on(e.tenant, e.work_key);
            perform interlock.groups_wake(p_tenant, g.groups, g.wake_kinds);
        end if;
    end if;

    if problem is null then
        w.requested_by := p_requested_by;
        w.reason := p_reason;
        w.token_id := p_token_id;
        w.token_name := p_token_name;
        perform interlock.effect_check(e, k, 0);
        perform interlock.effect_note(e, e.state, false, 'check', w);

        insert into interlock.actions (tenant, what, target, token_id,
            token_name, requested_by, reason, call_id)
        values (p_tenant, 'effect_check', p_effect::text, p_token_id,
            p_token_name, p_requested_by, p_reason, p_call);
    end if;

    doc := interlock.effect_doc(e);
    return next;
end
$$;

-- effects_overdue(limit): who: every interlockd, about once a second, and
-- again at once while it returns limit rows.
-- Sends past their deadline without an outcome are over, under a live owner
-- too, and their effects unknown; unknown ones that nobody can look up go to
-- a human when their time has come, and those of which the provider said so
-- while they were under way have failed.
-- Locks: works, then effects (FOR NO KEY UPDATE), skipping what is locked: it
-- never waits.  Judged again in later statements.
-- Answers: one row an effect that was moved.
create or replace function interlock.effects_overdue(p_limit int)
returns table (tenant int, effect_id uuid, job_id uuid, wake_kinds text[],
    ended_jobs uuid[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_now     timestamptz := clock_timestamp();
    v_tenant  int[];
    v_effect  uuid[];
    v_group   text[] := '{}';
    v_gten    int[] := '{}';
    e         interlock.effects;
    f         interlock.effects;
    s         interlock.sends;
    w         interlock.effect_word;
    g         record;
    r         record;
begin
    perform set_config('synchronous_commit', 'on', true);

    select array_agg(x.tenant), array_agg(x.effect_id)
    into v_tenant, v_effect
    from (
        (select y.tenant, y.effect_id from interlock.sends y
         where y.outcome is null and y.deadline <= v_now
         order by y.deadline limit p_limit)
        union
        (select y.tenant, y.id from interlock.effects y
         where y.human_at is not null and y.human_at <= v_now
         order by y.human_at limit p_limit)) x;

    select array_agg(k.tenant), array_agg(k.id)
    into v_tenant, v_effect
    from (
        select h.tenant, h.id, h.scope, h.name
        from (
            select e.tenant, e.work_key, e.id, e.scope, e.name
            from unnest(v_tenant, v_effect) u (tenant, effect)
            cross join lateral (
                select x.* from interlock.effects x
                where x.tenant = u.tenant and x.id = u.effect
                limit 1) e
            order by e.tenant, e.work_key) h
        cross join lateral (
            select from interlock.works w
            where w.tenant = h.tenant and w.work_key = h.work_key
            for no key update skip locked) w
        order by h.tenant, h.scope, h.name) k
    cross join lateral (
        select from interlock.effects x
        where x.tenant = k.tenant and x.id = k.id
        for no key update skip locked) l;

    for r in select * from unnest(v_tenant, v_effect) u (tenant, id) loop
        select * into strict e from interlock.effects x
        where x.tenant = r.tenant and x.id = r.id;
        v_now := clock_timestamp();
        f := e;

        for s in
            select * from interlock.sends x
            where x.tenant = e.tenant and x.effect_id = e.id
                and x.outcome is null and x.deadline <= v_now
        loop
            f := interlock.send_over(f, s, 'deadline', null);
        end loop;

        v_now := clock_timestamp();
        if f.human_at <= v_now and f.state = 'unknown'
            and f.no_round = f.round
        then
            w := null;
            w.said := 'failed';
            w.detail := 'a webhook said so while the send was under way';
            f := interlock.effect_fail(f, 'evidence', w);
        elsif f.human_at <= v_now and f.state = 'unknown' then
            w := null;
            w.detail := 'nobody can look it up';
            f := interlock.effect_human(f, 'human', w);
        end if;

        continue when f.seq = e.seq;

        tenant := e.tenant;
        effect_id := e.id;
        job_id := e.job_id;
        wake_kinds := '{}';
        ended_jobs := '{}';

        if f.state in ('confirmed', 'failed') then
            select * into g
            from interlock.effects_go_on(e.tenant, e.work_key);
            ended_jobs := g.ended_jobs;
            wake_kinds := g.wake_kinds;
            v_group := v_group || g.groups;
            v_gten := v_gten
                || array_fill(e.tenant, array[cardinality(g.groups)]);
        end if;

        return next;
    end loop;

    perform interlock.groups_settle(v_gten, v_group);
end
$$;

revoke all on function interlock.effect_looked_up(int, uuid, bigint, text,
    text, text, timestamptz) from public;
revoke all on function interlock.round_over(interlock.effects,
    interlock.effect_kind_versions) from public;
revoke all on function interlock.round_silent(interlock.effects)
    from public;
revoke all on function interlock.last_send(interlock.effects) from public;
revoke all on function interlock.effect_resolve(int, uuid, text, text, text,
    bigint, text, uuid) from public;
revoke all on function interlock.effect_decide(interlock.effects, text, text,
    text, bigint, text) from public;
revoke all on function interlock.effect_check_now(int, uuid, text, text,
    bigint, text, uuid) from public;
revoke all on function interlock.effects_overdue(int) from public;
grant execute on function interlock.effect_resolve(int, uuid, text, text,
    text, bigint, text, uuid) to interlock_service;
grant execute on function interlock.effect_check_now(int, uuid, text, text,
    bigint, text, uuid) to interlock_service;
grant execute on function interlock.effects_overdue(int)
    to interlock_service;
