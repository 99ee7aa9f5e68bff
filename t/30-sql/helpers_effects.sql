-- helpers_effects.sql: short forms of the calls about effects, for tests only
-- (schema t).

create function t.effect_kind(p_name text, p_doc text) returns void
language plpgsql as $$
declare
    r  record;
begin
    select * into strict r
    from interlock.effect_kind_put(t.demo(), p_name, p_doc);
    if r.problem is not null then
        raise exception '%: %', r.problem, r.detail;
    end if;
end
$$;

-- Providers: one that honours keys, one that can be asked, one that can be
-- believed, and one of which nothing is known.
create function t.providers() returns void language sql as $$
    select t.effect_kind('keys', '{"idempotent":true,"key_window":3600,
        "send_deadline":5}');
    select t.effect_kind('ask', '{"send_deadline":5,
        "lookup":{"type":"worker"}}');
    select t.effect_kind('sure', '{"send_deadline":5,"authoritative":true,
        "settle_after":60,"lookup":{"type":"worker"}}');
    select t.effect_kind('mute', '{"send_deadline":5}');
$$;

-- The send that somebody got for an effect.
create table t.sent (who text, name text, effect uuid, send uuid,
    primary key (who, name));

create function t.begin(
    p_who text, p_name text, p_kind text default 'keys',
    p_digest text default null, p_target text default null,
    p_compensates uuid default null, p_call uuid default null,
    p_fence bigint default null)
returns setof interlock.effect_answer
language plpgsql as $$
declare
    a  interlock.effect_answer;
begin
    select b.* into strict a from t.held h, interlock.effect_begin(
        array[h.tenant], array[h.job], array[h.attempt],
        array[coalesce(p_fence, h.fence)], array[p_name], array[p_kind],
        array[p_target], array[convert_to(p_digest, 'UTF8')],
        array[p_compensates], array[p_call]) b
    where h.who = p_who;

    if a.send_id is not null then
        insert into t.sent values (p_who, p_name, a.effect_id, a.send_id)
        on conflict (who, name) do update set effect = excluded.effect,
            send = excluded.send;
    end if;
    return next a;
end
$$;

create function t.outcome(
    p_who text, p_name text, p_state text, p_ref text default null,
    p_detail text default null, p_status int default null,
    p_response text default null)
returns table (ord int, outcome text, detail text, replayed boolean,
    effect_id uuid, state text, job_id uuid, ended_jobs uuid[],
    wake_kinds text[])
language sql as $$
    select o.* from t.sent x, t.held h, interlock.effect_outcome(
        array[h.tenant], array[h.attempt], array[x.effect], array[x.send],
        array[p_state], array[p_ref], array[p_detail], array[p_status],
        array[case when p_response is not null then 'text/plain' end],
        array[convert_to(p_response, 'UTF8')]) o
    where x.who = p_who and x.name = p_name and h.who = p_who
$$;

create function t.effect(p_name text) returns interlock.effects
language sql as $$
    select e from interlock.effects e where e.name = p_name
    order by created_at desc limit 1
$$;

create function t.state(p_name text) returns text language sql as $$
    select format('%s round %s', (t.effect(p_name)).state,
                  (t.effect(p_name)).round)
$$;

create function t.silence_over(p_name text) returns void
language plpgsql as $$
begin
    perform set_config('session_replication_role', 'replica', true);
    update interlock.sends s set deadline = clock_timestamp()
    where s.effect_id = (t.effect(p_name)).id and s.heard is null
        and s.outcome is not null and s.deadline > clock_timestamp();
    perform set_config('session_replication_role', 'origin', true);
end
$$;

-- What a human says; of what did not happen, after the deadlines of the sends
-- that nobody spoke for.
create function t.resolve(p_name text, p_outcome text)
returns table (problem text, detail text, doc text, wake_kinds text[],
    ended_jobs uuid[])
language sql as $$
    select t.silence_over(p_name) where p_outcome <> 'happened';

    select * from interlock.effect_resolve(t.demo(), (t.effect(p_name)).id,
        p_outcome, 'somebody', 'because', 1, 'token')
$$;

-- Moves an effect's times into the past, as if they had gone by.
create function t.older(p_name text, p_by interval) returns void
language plpgsql as $$
begin
    perform set_config('session_replication_role', 'replica', true);
    update interlock.sends s set deadline = deadline - p_by
    where s.effect_id in (select id from interlock.effects
                          where name = p_name);
    update interlock.effects e set first_sent = first_sent - p_by,
        last_sent = last_sent - p_by, open_until = open_until - p_by,
        human_at = human_at - p_by, unknown_since = unknown_since - p_by
    where name = p_name;
    perform set_config('session_replication_role', 'origin', true);
end
$$;

create function t.overdue() returns setof text language plpgsql as $$
declare
    v_ids  uuid[];
begin
    select array_agg(o.effect_id) into v_ids
    from interlock.effects_overdue(100) o;
    return query select e.name || ' ' || e.state from interlock.effects e
    where e.id = any (v_ids) order by 1;
end
$$;

-- A look-up of an effect, as checks make one: begun now, or at another time.
create function t.look(
    p_name text, p_answer text, p_ref text default null,
    p_seq bigint default null, p_started timestamptz default null)
returns text language sql as $$
    select r.outcome from interlock.effect_looked_up(t.demo(),
        (t.effect(p_name)).id, coalesce(p_seq, (t.effect(p_name)).seq),
        p_answer, null, p_ref, coalesce(p_started, clock_timestamp())) r
$$;

-- Two begins in one call, in that order.
create function t.begin2(p_who text, p_a text, p_b text)
returns table (outcome text, decision text) language sql as $$
    select b.outcome, b.decision from t.held h, interlock.effect_begin(
        array[h.tenant, h.tenant], array[h.job, h.job],
        array[h.attempt, h.attempt], array[h.fence, h.fence],
        array[p_a, p_b], array['mute', 'mute'], array[null, null],
        array[null, null]::bytea[], array[null, null]::uuid[]) b
    where h.who = p_who
    order by b.ord
$$;

-- An effect's open question: taken by one who looks, and answered.
create table t.asked (name text primary key, id uuid);

create function t.ask(p_name text) returns void language sql as $$
    update interlock.checks set tries = 1, started_at = clock_timestamp(),
        due_at = clock_timestamp() + interval '1 minute'
    where target = (t.effect(p_name)).id;
    insert into t.asked select p_name, c.id from interlock.checks c
    where c.target = (t.effect(p_name)).id
    on conflict (name) do update set id = excluded.id
$$;

create function t.answer(p_name text, p_answer text, p_ref text default null)
returns table (outcome text, wake_kinds text[]) language sql as $$
    select a.outcome, a.wake_kinds from t.asked x, interlock.checks_answer(
        array[t.demo()], array[x.id], array[1], array[p_answer],
        array[null], array[p_ref], array[null]) a
    where x.name = p_name
$$;
