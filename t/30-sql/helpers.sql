-- helpers.sql: short forms of the calls, for tests only (schema t).

create schema t;
grant usage on schema t to public;

-- Ids that a reader can tell apart.
create function t.rid(n bigint) returns uuid
language sql immutable as $$
    select ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid
$$;

create sequence t.ids;

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
    content_type text, headers text, traceparent text, waited_ms bigint)
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
    retry_at timestamptz, runnable boolean, ended_jobs uuid[], run_ms bigint)
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
    update interlock.jobs j
    set run_at = clock_timestamp() - interval '1 millisecond'
    where j.work_key = p_key and j.place = 'delayed'
$$;
