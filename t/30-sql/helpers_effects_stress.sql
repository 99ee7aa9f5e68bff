-- helpers_effects_stress.sql: workers, a provider with a record of its own,
-- lookers and humans at random; for effects.t only.

-- What the provider did: by key, how often.  Kind keys honours them.
create table t.provider (key text primary key, effect uuid not null,
    n int not null);

-- What workers hold: leases, and permissions to send.
create table t.worker (client int, tenant int, job uuid, attempt uuid,
    fence bigint, primary key (client, attempt));
create table t.flight (client int, tenant int, attempt uuid, effect uuid,
    send uuid primary key, key text, kind text, may timestamptz);

-- One step of client p_client: one call, one transaction.
create function t.effect_step(p_client int) returns void
language plpgsql as $$
declare
    d  float8 := random();
    h  record;
begin
    if d < 0.15 then
        perform t.submit((array['free', 'one', 'all', 'rep'])[
            1 + floor(random() * 4)], (array['free', 'one', 'all', 'rep'])[
            1 + floor(random() * 4)] || ':' || floor(random() * 40),
            random()::text, wait => random() < 0.8);
    elsif d < 0.30 then
        insert into t.worker
        select p_client, t.demo(), c.job_id, c.attempt_id, c.fence
        from t.claim('free,one,all,rep', 2) c;
    elsif d < 0.55 then
        perform t.effect_begin_some(p_client);
    elsif d < 0.75 then
        perform t.effect_act(p_client);
    elsif d < 0.87 then
        select * into h from t.worker w where w.client = p_client
        order by random() limit 1;
        if found then
            perform interlock.finish(array[h.tenant], array[h.job],
                array[h.attempt], array[h.fence],
                array[(array['complete', 'fail', 'release'])[
                    1 + floor(random() * 3)]], array['\x01'::bytea],
                array[null], array[null], array[null::bigint],
                array[null::bigint], array[null], array[true], array[null],
                array[null], array[0]);
            delete from t.worker w
            where w.client = p_client and w.attempt = h.attempt;
        end if;
    elsif d < 0.91 then
        update interlock.leases l
        set expires_at = least(l.expires_at,
            clock_timestamp() - interval '1 ms')
        where l.ctid = any (array(
            select x.ctid from interlock.leases x
            order by random() limit 1 for update skip locked));
        perform interlock.recover(5);
    elsif d < 0.94 then
        perform interlock.effects_overdue(5);
    elsif d < 0.97 then
        perform t.effect_look_some(p_client);
    elsif d < 0.98 then
        perform interlock.job_cancel(t.demo(), x.id, 'me', 'why', 1, 't')
        from (select id from interlock.jobs where finished_at is null
              order by random() limit 1) x;
    else
        perform t.effect_human_some(1, 'needs_human');
    end if;
end
$$;

create function t.effect_begin_some(p_client int) returns void
language plpgsql as $$
declare
    v_name  text := (array['a', 'b', 'c'])[1 + floor(random() * 3)];
    v_kind  text := case v_name when 'a' then 'keys' when 'b' then 'sure'
                    else 'mute' end;
    h       record;
    a       interlock.effect_answer;
begin
    select * into h from t.worker w where w.client = p_client
    order by random() limit 1;
    if not found then
        return;
    end if;

    select * into strict a from interlock.effect_begin(array[h.tenant],
        array[h.job], array[h.attempt], array[h.fence], array[v_name],
        array[v_kind], array[null], array[null::bytea], array[null::uuid],
        array[gen_random_uuid()]);

    if a.decision = 'send' then
        insert into t.flight values (p_client, h.tenant, h.attempt,
            a.effect_id, a.send_id, a.idempotency_key, v_kind,
            clock_timestamp() + interval '500 ms');
    end if;
end
$$;

-- The worker's request arrives, or not, and its outcome is told, or not.
create function t.effect_act(p_client int) returns void
language plpgsql as $$
declare
    f        record;
    v_state  text;
begin
    select * into f from t.flight x where x.client = p_client
    order by random() limit 1;
    if not found then
        return;
    end if;
    delete from t.flight x where x.send = f.send;

    if clock_timestamp() > f.may then
        v_state := 'unknown';
    elsif random() < 0.75 then
        insert into t.provider as p values (f.key, f.effect, 1)
        on conflict (key) do update
        set n = p.n + case f.kind when 'keys' then 0 else 1 end;
        v_state := case when random() < 0.6 then 'confirmed'
                   else 'unknown' end;
    else
        v_state := 'failed';
        if exists (select from t.provider p where p.key = f.key) then
            v_state := 'confirmed';
        end if;
    end if;

    if random() < 0.75 then
        perform interlock.effect_outcome(array[f.tenant], array[f.attempt],
            array[f.effect], array[f.send], array[v_state], array[f.key],
            array[null], array[null::int], array[null],
            array[null::bytea]);
    end if;
end
$$;

-- Looks in two steps, as it is two transactions: takes a question, answers it.
create table t.looking (client int primary key, tenant int, id uuid,
    try int, key text);

create function t.effect_look_some(p_client int) returns void
language plpgsql as $$
declare
    r         record;
    v_answer  text;
begin
    delete from t.looking l where l.client = p_client returning * into r;
    if found then
        v_answer := case when exists (
            select from t.provider p where p.key = r.key)
            then 'found' else 'not_found' end;
        perform interlock.checks_answer(array[r.tenant], array[r.id],
            array[r.try], array[v_answer], array[null], array[r.key],
            array[null]);
        return;
    end if;

    with taken as (
        update interlock.checks c
        set tries = c.tries + 1, started_at = clock_timestamp()
        where c.ctid = (select x.ctid from interlock.checks x
                        where x.started_at is null
                        order by random() limit 1 for update skip locked)
        returning c.tenant, c.id, c.tries, c.vars::json
            ->> 'idempotency_key' as key)
    insert into t.looking select p_client, x.* from taken x;
end
$$;

-- A human looks into the provider's books and says so.
create function t.effect_human_some(p_limit int, p_state text)
returns bigint language plpgsql as $$
declare
    v_n  bigint := 0;
    e    record;
begin
    for e in
        select x.id, interlock.effect_key(x.id, x.round) as key
        from interlock.effects x
        where x.state = p_state and (p_state = 'needs_human' or not exists (
            select from interlock.sends s where s.effect_id = x.id
                and s.heard is null
                and s.deadline > clock_timestamp() - interval '1 s'))
        order by random() limit p_limit
    loop
        v_n := v_n + 1;
        perform interlock.effect_resolve(t.demo(), e.id,
            case when exists (select from t.provider p where p.key = e.key)
            then 'happened' else 'not_happened' end, 'me', 'books', 1, 't');
    end loop;
    return v_n;
end
$$;
