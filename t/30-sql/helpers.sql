-- helpers.sql: short forms of the calls, for tests only (schema t).

create schema t;
grant usage on schema t to public;

-- Ids that a reader can tell apart.
create function t.rid(n bigint) returns uuid
language sql immutable as $$
    select ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid
$$;

create sequence t.ids;

create function t.demo() returns int language sql as $$
    select interlock.tenant_create('demo')
$$;

create function t.kind(p_name text, p_doc text) returns void
language plpgsql as $$
declare
    r  record;
begin
    select * into strict r
    from interlock.kind_put(interlock.tenant_create('demo'), p_name, p_doc);
    if r.problem is not null then
        raise exception '%: %', r.problem, r.detail;
    end if;
end
$$;

create function t.submit(
    kind text, key text, payload text default '{}', idem text default null,
    fp text default null, mismatch text default 'reject',
    version bigint default null, fresh boolean default false,
    id bigint default null, source text default 'api',
    priority int default null, run_after timestamptz default null,
    wait boolean default true, tenant text default 'demo')
returns setof interlock.submit_answer
language plpgsql as $$
begin
    return query select * from interlock.submit(
        array[interlock.tenant_create(tenant)],
        array[t.rid(coalesce(id, nextval('t.ids') + 1000000))],
        array[source], array[idem],
        array[sha256(convert_to(coalesce(fp, payload, ''), 'UTF8'))],
        array[mismatch], array[kind], array[key], array[version],
        array[convert_to(payload, 'UTF8')], array['application/json'],
        array['{}'], array[null], array[priority], array[run_after],
        array[null::timestamptz], array[fresh], array['somebody'],
        array['because'], wait);
end
$$;

create function t.claim(
    kinds text, max int default 1, worker text default 'w',
    claim bigint default null, tenant text default 'demo')
returns table (ord int, attempt_id uuid, job_id uuid, attempt int, kind text,
    work_key text, fence bigint, expires_at timestamptz, remaining_ms bigint,
    lease_seconds int, token_exp timestamptz, payload bytea,
    content_type text, headers text, traceparent text, waited_ms bigint,
    step text, checkpoint text, earlier text, effects text)
language sql as $$
    select * from interlock.claim(
        array[t.rid(coalesce(claim, nextval('t.ids') + 1000000))],
        array[interlock.tenant_create(tenant)], array[worker], array[kinds],
        array[max])
$$;

-- What a worker holds: filled by t.take, used by the owner's calls.
create table t.held (who text primary key, tenant int, job uuid,
    attempt uuid, fence bigint);

create function t.take(p_who text, p_kind text) returns text
language plpgsql as $$
declare
    r  record;
begin
    select * into r from t.claim(p_kind, 1, p_who);
    if r.attempt_id is null then
        return 'nothing';
    end if;
    insert into t.held
    values (p_who, interlock.tenant_create('demo'), r.job_id, r.attempt_id,
            r.fence)
    on conflict (who) do update set job = excluded.job,
        attempt = excluded.attempt, fence = excluded.fence;
    return format('%s fence %s', r.work_key, r.fence);
end
$$;

create function t.finish(
    p_who text, p_call text, p_result text default null,
    p_error text default 'boom', p_retryable boolean default true,
    p_retry_after int default null, p_url text default null,
    p_fence bigint default null)
returns table (ord int, outcome text, replayed boolean, job_id uuid,
    status text, kind text, work_key text, revision int,
    retry_at timestamptz, runnable boolean, ended_jobs uuid[], run_ms bigint,
    blocked_ms bigint, wake_kinds text[])
language sql as $$
    select f.* from t.held h, interlock.finish(
        array[h.tenant], array[h.job], array[h.attempt],
        array[coalesce(p_fence, h.fence)], array[p_call],
        array[sha256(convert_to(concat_ws('/', p_call, p_result, p_error),
                                'UTF8'))],
        array[p_result], array[p_url], array[1::bigint], array[0::bigint],
        array[case when p_call = 'fail' then p_error end],
        array[p_retryable], array[null], array[null],
        array[p_retry_after]) f
    where h.who = p_who
$$;

create function t.renew(
    p_who text, p_progress text default null, p_step text default null,
    p_checkpoint text default null, p_fence bigint default null)
returns table (ord int, outcome text, expires_at timestamptz,
    remaining_ms bigint, cancel_requested boolean, kind text)
language sql as $$
    select f.* from t.held h, interlock.renew(
        array[h.tenant], array[h.job], array[h.attempt],
        array[coalesce(p_fence, h.fence)], array[p_progress],
        array[p_step], array[p_checkpoint]) f
    where h.who = p_who
$$;

-- Makes a lease's end be in the past, without waiting for it.
create function t.expire(p_who text) returns void
language sql as $$
    update interlock.leases l
    set expires_at = clock_timestamp() - interval '1 second'
    from t.held h
    where h.who = p_who and l.tenant = h.tenant and l.attempt_id = h.attempt
$$;

-- Makes what is delayed be due.
create function t.due(p_key text) returns void
language sql as $$
    update interlock.jobs_live j
    set run_at = clock_timestamp() - interval '1 millisecond'
    where j.work_key = p_key and j.place = 'delayed'
$$;

-- Two ends, or some submissions, in one call and in the order given.
create function t.finish2(p_a text, p_b text)
returns table (outcome text, status text) language sql as $$
    select f.outcome, f.status
    from (select array_agg(h.tenant order by x.n) as tenant,
              array_agg(h.job order by x.n) as job,
              array_agg(h.attempt order by x.n) as attempt,
              array_agg(h.fence order by x.n) as fence
          from unnest(array[p_a, p_b]) with ordinality x (who, n)
          join t.held h on h.who = x.who) h,
        interlock.finish(h.tenant, h.job, h.attempt, h.fence,
            array['complete', 'complete'], array['\x01', '\x02']::bytea[],
            array[null, null], array[null, null],
            array[null, null]::bigint[], array[null, null]::bigint[],
            array[null, null], array[null, null]::boolean[],
            array[null, null], array[null, null],
            array[null, null]::int[]) f
    order by f.ord
$$;

create function t.submitn(p_kind text, p_keys text[], p_idems text[],
    p_id bigint)
returns table (decision text, replayed boolean) language sql as $$
    select s.decision, s.replayed
    from cardinality(p_keys) n,
        lateral (select array_agg(t.rid(p_id + x)) as ids
                 from generate_series(1, n) x) i,
        interlock.submit(
        array_fill(interlock.tenant_create('demo'), array[n]), i.ids,
        array_fill('api'::text, array[n]), p_idems,
        array_fill('\x01'::bytea, array[n]),
        array_fill('reject'::text, array[n]), array_fill(p_kind, array[n]),
        p_keys, array_fill(null::bigint, array[n]),
        array_fill('\x31'::bytea, array[n]),
        array_fill(null::text, array[n]), array_fill(null::text, array[n]),
        array_fill(null::text, array[n]), array_fill(null::int, array[n]),
        array_fill(null::timestamptz, array[n]),
        array_fill(null::timestamptz, array[n]),
        array_fill(false, array[n]), array_fill(null::text, array[n]),
        array_fill(null::text, array[n]), true) s
    order by s.ord
$$;

-- Empties everything, for the next isolation spec.
create function t.clean() returns void language plpgsql as $$
begin
    perform set_config('session_replication_role', 'replica', true);
    truncate interlock.effects, interlock.sends, interlock.effects_history,
        interlock.effects_chain, interlock.effects_chain_ends,
        interlock.effect_tallies, interlock.evidence_sources,
        interlock.evidence_queue,
        interlock.effect_kinds, interlock.effect_kind_versions,
        interlock.checks, interlock.check_answers;
    truncate interlock.schedules, interlock.schedule_versions,
        interlock.schedule_subjects, interlock.schedule_skips,
        interlock.slots, interlock.slot_lines, interlock.gaps,
        interlock.schedule_plans,
        interlock.schedule_plan_items;
    truncate interlock.jobs, interlock.works, interlock.requests,
        interlock.idempotency, interlock.payloads, interlock.leases,
        interlock.attempts, interlock.results, interlock.recovery_troubles,
        interlock.kind_versions, interlock.kinds, interlock.limits,
        interlock.limit_groups, interlock.lease_groups, interlock.kind_pace,
        interlock.queue_looks, interlock.actions, interlock.publications,
        interlock.refused_results, interlock.inbox,
        interlock.redrive_plans, interlock.redrive_jobs, t.plans, interlock.checks,
        interlock.check_answers, t.held, t.looks;
end
$$;

-- A job whose owner is lost, and that waits for its result check: of type
-- http, or by a worker.  Its question is due.
create function t.lost(p_key text, p_id bigint, p_type text default 'http')
returns text language plpgsql as $$
begin
    perform t.kind('chk', format('{"overlap":"buffer_all","on_lost":"check",
        "result_check":%s}', case p_type when 'http' then '{"type":"http",
        "url":"https://h/","found":{"status":[200]},"max_checks":2}'
        else '{"type":"worker"}' end));
    perform t.submit('chk', p_key, id => p_id);
    perform t.take('lost', 'chk');
    perform t.expire('lost');
    perform interlock.recover(10);
    return (select j.status from interlock.jobs j where j.id = t.rid(p_id));
end
$$;

-- The answer to the present try of a job's look-up, or of the one that it had.
create table t.looks (job uuid primary key, id uuid, try int);

create function t.look_up() returns bigint language sql as $$
    with x as (select * from interlock.checks_take(10)),
    i as (insert into t.looks
          select c.target, x.check_id, x.try
          from x join interlock.checks c on c.id = x.check_id
          on conflict (job) do update set id = excluded.id,
              try = excluded.try
          returning 1)
    select count(*) from i
$$;

create function t.say(p_id bigint, p_answer text)
returns table (outcome text, ended_jobs uuid[], wake_kinds text[])
language sql as $$
    select a.outcome, a.ended_jobs, a.wake_kinds
    from t.looks l, interlock.checks_answer(array[t.demo()], array[l.id],
        array[l.try], array[p_answer], array['said'], array[null],
        array[null]) a
    where l.job = t.rid(p_id)
$$;

-- A kind without braces, which isolation specs cannot have:
-- 'overlap skip, lease_seconds 20, allow_fresh true'.
create function t.policy(p_name text, p_fields text) returns void
language sql as $$
    select t.kind(p_name, '{' || string_agg(format('"%s":%s', f[1],
        case when f[2] ~ '^(true|false|[0-9]+)$' then f[2]
        else '"' || f[2] || '"' end), ',') || '}')
    from (select string_to_array(trim(x), ' ') as f
          from unnest(string_to_array(p_fields, ',')) x) y
$$;

-- One random step of client p_client: one call, one transaction (stress.t).
create table t.hand (client int, tenant int, job uuid, attempt uuid,
    fence bigint, primary key (client, attempt));

-- Sends whose outcome their owner has not told yet.
create table t.said (client int, tenant int, attempt uuid, effect uuid,
    send uuid, primary key (client, send));

create function t.step(p_client int) returns void language plpgsql as $$
declare
    v_tenant  int := interlock.tenant_create('demo');
    d         float8 := random();
    n         int := 1 + floor(random() * 3)::int;
    v_call    text;
    h         record;
    r         record;
begin
    if random() < 0.2 then
        perform t.step_more(p_client);

    elsif d < 0.40 then
        -- A batch of n over few keys, some with one idempotency key twice.
        select array_agg(gen_random_uuid()) as id,
            array_agg(case when random() < 0.4 then
                'i' || floor(random() * 40) end) as idem,
            array_agg(convert_to(chr(97 + floor(random() * 3)::int), 'UTF8'))
                as payload,
            array_agg(k.kind) as kind,
            array_agg(k.kind || ':' || floor(random() * 3)) as key,
            array_agg(case when random() < 0.2 then
                floor(random() * 20)::bigint end) as version
        into h
        from generate_series(1, n) x,
            lateral (select (array['free', 'skip', 'one', 'ret', 'first',
                'all', 'park', 'rep', 'lim', 'lims', 'fair', 'hold',
                'effw', 'effj'])
                [1 + floor(random() * 14 + x * 0)::int] as kind) k;

        for r in select s.* from interlock.submit(
            array_fill(v_tenant, array[n]), h.id,
            array_fill('api'::text, array[n]), h.idem, h.payload,
            array_fill('first'::text, array[n]), h.kind, h.key, h.version,
            h.payload, array_fill(null::text, array[n]),
            array_fill(null::text, array[n]),
            array_fill(null::text, array[n]),
            array_fill(null::int, array[n]),
            array_fill(null::timestamptz, array[n]),
            array_fill(null::timestamptz, array[n]),
            array_fill(random() < 0.2 and h.kind <@ array['ret'], array[n]),
            array_fill(null::text, array[n]),
            array_fill(null::text, array[n]), random() < 0.5) s
        loop
            if r.outcome not in ('ok', 'busy')
                and r.problem is distinct from 'queue-full'
            then
                raise exception 'submit: % %', r.problem, r.detail;
            end if;
        end loop;

    elsif d < 0.65 then
        insert into t.hand
        select p_client, v_tenant, c.job_id, c.attempt_id, c.fence
        from interlock.claim(
            array[gen_random_uuid(), gen_random_uuid()],
            array[v_tenant, v_tenant], array['a', 'b'],
            array['free,skip,one,ret,first,all,park,rep,lim,lims,fair,'
                  'hold,effw,effj', 'lims,rep,one,free,effw'],
            array[n, 1]) c;

    elsif d < 0.88 then
        select array_agg(x.tenant) as tenant, array_agg(x.job) as job,
            array_agg(x.attempt) as attempt, array_agg(x.fence) as fence,
            count(*)::int as n
        into h
        from (select * from t.hand where client = p_client
              order by random() limit n) x;
        if h.n = 0 then
            return;
        end if;

        v_call := (array['complete', 'complete', 'complete', 'fail', 'fail',
                         'release'])[1 + floor(random() * 6)::int];
        for i in 1 .. 2 loop    -- the second time: the first answer
            for r in select f.* from interlock.finish(h.tenant, h.job,
                h.attempt, h.fence, array_fill(v_call, array[h.n]),
                array_fill('\x01'::bytea, array[h.n]),
                array_fill(null::text, array[h.n]),
                array_fill(null::text, array[h.n]),
                array_fill(null::bigint, array[h.n]),
                array_fill(null::bigint, array[h.n]),
                array_fill('boom'::text, array[h.n]),
                array_fill(random() < 0.8, array[h.n]),
                array_fill(null::text, array[h.n]),
                array_fill(null::text, array[h.n]),
                array_fill(0, array[h.n])) f
            loop
                if r.outcome not in ('ok', 'lease-lost', 'job-canceled')
                    or (r.outcome = 'job-canceled' and v_call <> 'complete')
                    or (i = 2 and r.outcome = 'ok' and not r.replayed)
                then
                    raise exception 'finish %: %', i, r.outcome;
                end if;
            end loop;
        end loop;

        delete from t.hand x
        where x.client = p_client and x.attempt = any (h.attempt);

    elsif d < 0.93 then
        select array_agg(x.tenant) as tenant, array_agg(x.job) as job,
            array_agg(x.attempt) as attempt, array_agg(x.fence) as fence,
            array_agg(null::text) as nothing
        into h from t.hand x where x.client = p_client;
        perform interlock.renew(h.tenant, h.job, h.attempt, h.fence,
            h.nothing, h.nothing, h.nothing)
        where h.tenant is not null;

    elsif d < 0.95 then
        -- Somebody cancels, takes a lease away, publishes by hand, or changes a
        -- limit: one call.
        if random() < 0.3 then
            perform interlock.job_revoke(v_tenant, (
                select x.job_id from interlock.leases x
                order by random() limit 1), 'me', 'why', 1, 't');
        elsif random() < 0.5 then
            perform interlock.job_cancel(v_tenant, (
                select x.id from interlock.jobs x
                where x.finished_at is null and x.created_at > now()
                    - random() * interval '1 s'
                limit 1), 'me', 'why', 1, 't');
        elsif random() < 0.5 then
            perform interlock.work_publish(v_tenant, x.work_key, x.revision,
                'me', 'why', 1, 't')
            from (select * from interlock.results
                  order by created_at desc limit 1) x;
        else
            perform interlock.limit_put(v_tenant, 'two:{part}',
                format('{"capacity":%s}', 1 + floor(random() * 3)));
        end if;

    elsif d < 0.97 then
        update interlock.leases l
        set expires_at = least(l.expires_at,
            clock_timestamp() - interval '1 ms')
        where l.ctid = any (array(
            select x.ctid from interlock.leases x
            order by random() limit 2 for update skip locked));

    else
        case floor(random() * 4)
        when 0 then perform interlock.recover(5);
        when 1 then perform interlock.prune(5);
        when 2 then perform interlock.limits_sweep(1000);
        else
            -- (whoever changes a job holds its work)
            for r in
                select y.tenant, y.id, l.work_key
                from (select x.* from interlock.jobs x
                      where x.finished_at is null and x.started_at is null
                      order by random() limit 2) y
                cross join lateral (
                    select w.work_key from interlock.works w
                    where w.tenant = y.tenant and w.work_key = y.work_key
                    for no key update skip locked) l
            loop
                update interlock.jobs j set expire_at = clock_timestamp()
                where j.tenant = r.tenant and j.id = r.id
                    and j.started_at is null;
            end loop;
            perform interlock.expire(5);
        end case;
    end if;
end
$$;

-- What owners do to the outside world, and people about jobs and effects.
create function t.step_more(p_client int) returns void
language plpgsql as $$
declare
    v_tenant  int := interlock.tenant_create('demo');
    d         float8 := random();
    h         record;
    r         record;
    v_plan    uuid;
begin
    if random() < 0.3 then
        perform t.step_slots();
    elsif d < 0.22 then
        -- An owner often hears what became of a send: in a transaction of its
        -- own, for an outcome locks the work, and a begin holds the lease.
        delete from t.said x
        where x.client = p_client and x.send = (
            select y.send from t.said y where y.client = p_client limit 1)
        returning * into h;
        if h.send is null or random() < 0.3 then
            return;
        end if;
        perform o.outcome from interlock.effect_outcome(array[h.tenant],
            array[h.attempt], array[h.effect], array[h.send],
            array[(array['confirmed', 'failed', 'unknown'])
                [1 + floor(random() * 3)::int]], array['ref'],
            array[null], array[null::int], array[null],
            array[null::bytea]) o;

    elsif d < 0.45 then
        -- An owner begins an effect.
        select x.* into h from t.hand x
        join interlock.leases l on l.tenant = x.tenant
            and l.attempt_id = x.attempt and l.kind like 'eff%'
        where x.client = p_client order by random() limit 1;
        if not found then
            return;
        end if;
        select b.* into r from interlock.effect_begin(array[h.tenant],
            array[h.job], array[h.attempt], array[h.fence],
            array['e' || floor(random() * 2)],
            array[(array['mute', 'keys'])[1 + floor(random() * 2)::int]],
            array[null], array[null::bytea], array[null::uuid],
            array[null::uuid]) b;
        if r.outcome not in ('ok', 'lease-lost', 'job-canceled',
            'lease-expired', 'effect-mismatch', 'lease-too-short')
        then
            raise exception 'begin: % %', r.outcome, r.detail;
        end if;
        if r.decision = 'send' then
            insert into t.said values (p_client, h.tenant, h.attempt,
                r.effect_id, r.send_id) on conflict do nothing;
        end if;

    elsif d < 0.65 then
        -- Somebody decides about a job.
        select x.id, x.status into h from interlock.jobs x
        where x.status in ('held', 'checking', 'failed', 'parked')
        order by random() limit 1;
        if found then
            select x.* into r from interlock.job_decide(v_tenant, h.id,
                (array['retry', 'succeed', 'fail', 'release'])
                    [1 + floor(random() * 4)::int],
                null, 'me', 'why', 1, 't') x;
            if r.problem not in ('decision-not-possible', 'work-active') then
                raise exception 'decide: % %', r.problem, r.detail;
            end if;
        end if;

    elsif d < 0.8 then
        -- Or redrives some, or takes up a plan that was begun.
        select x.id into v_plan from interlock.redrive_plans x
        order by random() limit 1;
        if v_plan is null or random() < 0.3 then
            perform interlock.redrive_plan(v_tenant, '{"max":5}', 'me', 'why',
                1, 't');
        else
            select x.* into r from interlock.redrive(v_tenant, v_plan, 'me',
                'why', 1, 't', 2) x;
            if r.problem is not null then
                raise exception 'redrive: % %', r.problem, r.detail;
            end if;
        end if;

    else
        -- Or says what became of an effect.
        select x.id into h from interlock.effects x
        where x.state in ('unknown', 'needs_human')
        order by random() limit 1;
        if found then
            perform interlock.effect_resolve(v_tenant, h.id,
                (array['happened', 'not_happened', 'send_again'])
                    [1 + floor(random() * 3)::int], 'me', 'why', 1, 't');
        end if;
    end if;
end
$$;

-- As if the owner had renewed just in time, for a lease whose end t.expire
-- has put into the past.
create function t.renew_late(p_who text) returns table (outcome text)
language plpgsql as $$
begin
    update interlock.leases l
    set expires_at = clock_timestamp() + interval '5 seconds'
    from t.held h
    where h.who = p_who and l.tenant = h.tenant and l.attempt_id = h.attempt;
    return query select r.outcome from t.renew(p_who) r;
end
$$;

-- An operator's calls.
create function t.decide(p_job bigint, p_action text)
returns table (problem text, detail text, doc text, wake_kinds text[],
    ended_jobs uuid[])
language sql as $$
    select d.* from interlock.job_decide(t.demo(), t.rid(p_job), p_action,
        null, 'who', 'why', 1, 'op') d
$$;

-- Plans of all failed jobs, numbered as they are made, and what redrive says
-- of the n-th.
create table t.plans (n int, id uuid);

create function t.plan() returns void language sql as $$
    insert into t.plans (n, id)
    select 1 + (select count(*) from t.plans),
        (p.doc::json ->> 'plan_id')::uuid
    from interlock.redrive_plan(t.demo(), '{}', null, null, 1, 'op') p
$$;

create function t.redrive(p_n int default 1, p_limit int default 100)
returns table (problem text, redriven text, skipped text, remaining int,
    wake_kinds text[])
language sql as $$
    select r.problem, r.doc::json ->> 'redriven', r.doc::json ->> 'skipped',
        r.remaining, r.wake_kinds
    from t.plans p, interlock.redrive(t.demo(), p.id, 'who', 'why', 1, 'op',
        p_limit) r
    where p.n = p_n
$$;

-- What a worker that looks something up says: it is there.
create function t.found() returns text language sql as $$
    select '{"answer":"found"}'
$$;

-- What an edge tells of a request that it answered alone; its id goes by its
-- number.
create function t.edge(
    seq bigint, decision text, idem text, kind text, key text, job uuid,
    source text default 'api', zone bigint default 1,
    at timestamptz default clock_timestamp(), fp text default '{}',
    tenant text default 'demo', seen boolean default false)
returns text
language sql as $$
    select x.outcome from interlock.edge_record(array[t.rid(9000 + zone)],
        array[seq], array[case when not seen
                          then t.rid(8000000 + zone * 1000 + seq) end],
        array[at], array[tenant], array[source], array[idem],
        array[sha256(convert_to(fp, 'UTF8'))], array[kind], array[key],
        array[decision], array[case decision when 'skipped' then 200
                               else 202 end],
        array[case decision when 'skipped' then 'same_work' end],
        array['queued'], array[job], array[job]) x
$$;
