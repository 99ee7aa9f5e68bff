-- audit(tenant, key, limit, cursor): who: interlockd, GET /v1/audit.
-- All that is known of a work key: first how it stands (final: the result that
-- stands, the effects that are confirmed, and what is open), then one time
-- line, oldest first, from a cursor on.
-- Locks: none.
-- Answers: one row, doc {work_key, kind, final: {result, confirmed_effects,
-- open}, timeline, next}, and next, the cursor from which the next page goes
-- on, null at the end; no row if the key is unknown, or the cursor is none.
--
-- Entries of the time line, each {at, what, …}:
--   request    an arrival with the decision it got
--   claimed    an attempt begins
--   ended      it ends: call is what ended it (complete, fail, release, lost),
--              status what became of its job; retryable only with fail and lost
--   refused    what an owner brought too late, kept as evidence
--   checked    somebody looked for a lost job's result, or an effect
--   held       the look-ups were exhausted: from now on the job waits for a
--              person (one that is held by its loss has an ended with status
--              held)
--   published  a result stands from now on, or does again
--   action     what a person did: requested_by and reason, and the token
--   expired    a job waited too long
-- and those of audit_effects.  That a parked job came into its line by itself
-- is no entry: no row says when.  (That a person let it in is an action.)
create or replace function interlock.audit(
    p_tenant int, p_key text, p_limit int, p_cursor text)
returns table (doc text, next text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_limit   int := greatest(1, least(p_limit, 1000));
    v_from    timestamptz := '-infinity';
    v_place   text := '';
    v_line    json;
    v_next    text;
    v_last    record;
    w         interlock.works;
    e         record;
begin
    select * into w from interlock.works x
    where x.tenant = p_tenant and x.work_key = p_key;
    if not found then
        return;
    end if;

    if p_cursor is not null then
        if p_cursor !~ '^-?[0-9]{1,18}\.[0-9]\.[0-9a-z.-]{1,80}$' then
            return;
        end if;
        v_from := timestamptz 'epoch' + make_interval(
            secs => split_part(p_cursor, '.', 1)::bigint / 1000000)
            + split_part(p_cursor, '.', 1)::bigint % 1000000
            * interval '1 microsecond';
        v_place := substr(p_cursor, strpos(p_cursor, '.') + 1);
    end if;

    select json_agg(x.doc order by x.n) filter (where x.n <= v_limit)
            as line,
        max(x.n) > v_limit as more,
        max(format('%s.%s', (extract(epoch from x.at) * 1000000)::bigint,
            x.place)) filter (where x.n = v_limit) as next
    into v_last
    from (select y.*, row_number() over (order by y.at, y.place) as n
          from (select z.at, z.place collate "C" as place, z.doc
                from interlock.audit_line(p_tenant, p_key, v_from, v_place,
                                          v_limit + 1) z
                order by 1, 2
                limit v_limit + 1) y) x;

    v_line := v_last.line;
    v_next := case when v_last.more then v_last.next end;

    select * into e from interlock.audit_effects_final(p_tenant, p_key);

    return query select json_build_object(
        'work_key', w.work_key,
        'kind', w.kind,
        'final', json_build_object(
            'result', (select r.doc::json
                       from interlock.work_result(p_tenant, p_key, null) r),
            'confirmed_effects', coalesce(e.confirmed, '[]'::json),
            'open', interlock.audit_open(p_tenant, p_key, e.open)),
        'timeline', coalesce(v_line, '[]'::json),
        'next', v_next)::text, v_next;
end
$$;

-- audit_open(tenant, key, effects): what is not decided yet: the jobs that
-- have not ended (at most 100), then these effects.  since: from when a job has
-- been in its state: its claim, or else the last of what put it there: the end
-- of an attempt, a look-up that settled it, a decision, its admission.
create or replace function interlock.audit_open(
    p_tenant int, p_key text, p_effects json)
returns json
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_jobs  json;
begin
    select json_agg(json_build_object('what', 'job', 'id', x.id,
            'state', x.status, 'since', interlock.ts(coalesce(
                x.granted_at, greatest(x.ended_at, x.looked_at, x.decided_at,
                                       x.created_at))),
            'why', case
                when x.status = 'running' then 'attempt ' || x.attempts
                    || case when x.ending then ', asked to end' else '' end
                when x.status = 'held' then 'waits for a decision: '
                    || x.error
                when x.status = 'checking' then 'waits for its '
                    || x.waits_on || coalesce(': ' || x.error, '')
                when x.status = 'parked' then 'waits for room in its line'
                when x.place = 'blocked' and x.waits_on is not null
                then 'waits for effects of an earlier attempt'
                when x.place = 'blocked' then 'waits for its turn'
                else coalesce('waits for its next attempt: ' || x.error,
                    'waits to start') end,
            'assignee', x.assignee)
        order by x.created_at)
    into v_jobs
    from (select j.*, l.granted_at, a.ended_at, c.at as looked_at,
              d.at as decided_at
          from (select y.* from (
                    (select i.* from interlock.jobs_live i
                     where i.tenant = p_tenant and i.work_key = p_key
                         and i.status in ('queued', 'running', 'checking',
                                          'held')
                     order by i.created_at limit 100)
                    union all
                    (select i.* from interlock.jobs_live i
                     where i.tenant = p_tenant and i.work_key = p_key
                         and i.status = 'parked'
                     order by i.turn limit 100)) y
                order by y.created_at limit 100) j
          left join lateral (
              select y.granted_at from interlock.leases y
              where y.tenant = p_tenant and y.job_id = j.id
              limit 1) l on true
          left join lateral (
              select y.ended_at from interlock.attempts y
              where y.tenant = p_tenant and y.job_id = j.id
              order by y.fence desc limit 1) a on true
          left join lateral (
              select y.at from interlock.check_answers y
              where y.tenant = p_tenant and y.target = j.id
                  and y.outcome in ('not_found', 'exhausted')
              order by y.at desc limit 1) c on true
          left join lateral (
              select y.at from interlock.actions y
              where y.tenant = p_tenant and y.work_key = p_key
                  and y.target = j.id::text
                  and y.what in ('job_decide', 'redrive')
              order by y.at desc limit 1) d on true) x;

    return (select coalesce(json_agg(y.value), '[]'::json)
            from (select x.value from json_array_elements(v_jobs) x (value)
                  union all
                  select x.value
                  from json_array_elements(p_effects) x (value)) y);
end
$$;

-- audit_line(tenant, key, from, after, limit): entries of the time line behind
-- the one at a time and place; of each sort the first limit ones.  place
-- orders those of one time.
create or replace function interlock.audit_line(
    p_tenant int, p_key text, p_from timestamptz, p_after text,
    p_limit int)
returns table (at timestamptz, place text, doc json)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
    return query
    select q.arrived_at, ('0.' || q.id) collate "C", json_build_object(
        'at', interlock.ts(q.arrived_at), 'what', 'request',
        'request_id', q.id, 'source', q.source, 'decision', q.decision,
        'code', q.code, 'reason', q.reason, 'job_id', q.job_id,
        'version', q.version, 'idempotency_key', q.idempotency_key,
        'active_job_id', q.active_job_id,
        'superseded_job_id', q.superseded_job_id,
        'first_request', q.first_request, 'requested_by', q.requested_by,
        'request_reason', q.request_reason)
    from interlock.requests q
    where q.tenant = p_tenant and q.work_key = p_key
        and q.arrived_at >= p_from
        and (q.arrived_at, ('0.' || q.id) collate "C") > (p_from, p_after)
    order by q.arrived_at, 2 limit p_limit;

    return query
    select x.granted_at, ('1.' || x.id) collate "C", json_build_object(
        'at', interlock.ts(x.granted_at), 'what', 'claimed',
        'job_id', x.job_id, 'attempt', x.attempt, 'fence', x.fence,
        'worker', x.worker)
    from (select a.id, a.granted_at, a.job_id, a.attempt, a.fence, a.worker
          from interlock.attempts a
          where a.tenant = p_tenant and a.work_key = p_key
              and a.granted_at >= p_from
          union all
          select l.attempt_id, l.granted_at, l.job_id, l.attempt, l.fence,
              l.worker
          from interlock.jobs_live j
          cross join lateral (
              select y.* from interlock.leases y
              where y.tenant = j.tenant and y.job_id = j.id
              limit 1) l
          where j.tenant = p_tenant and j.work_key = p_key
              and j.status = 'running' and l.granted_at >= p_from) x
    where (x.granted_at, ('1.' || x.id) collate "C") > (p_from, p_after)
    order by x.granted_at, 2 limit p_limit;

    return query
    select a.ended_at, ('2.' || a.id) collate "C", interlock.audit_ended(a)
    from interlock.attempts a
    where a.tenant = p_tenant and a.work_key = p_key
        and a.ended_at >= p_from
        and (a.ended_at, ('2.' || a.id) collate "C") > (p_from, p_after)
    order by a.ended_at, 2 limit p_limit;

    return query
    select r.at, r.place collate "C", json_build_object(
        'at', interlock.ts(r.at), 'what', 'refused', 'call', 'complete',
        'refusal', r.refusal, 'job_id', r.job_id, 'fence', r.fence,
        'result', r.result, 'result_url', r.result_url)
    from (select y.*, '3.' || y.attempt_id || '.'
              || encode(substr(y.digest, 1, 8), 'hex') as place
          from interlock.refused_results y
          where y.tenant = p_tenant and y.work_key = p_key
              and y.at >= p_from) r
    where (r.at, r.place collate "C") > (p_from, p_after)
    order by r.at, 2 limit p_limit;

    return query
    select c.at, ('4.' || c.id) collate "C", json_build_object(
        'at', interlock.ts(c.at), 'what', 'checked', 'subject', c.subject,
        'id', c.target, 'try', c.try, 'answer', c.answer,
        'detail', c.detail, 'provider_ref', c.ref, 'outcome', c.outcome)
    from interlock.check_answers c
    where c.tenant = p_tenant and c.work_key = p_key and c.at >= p_from
        and (c.at, ('4.' || c.id) collate "C") > (p_from, p_after)
    order by c.at, 2 limit p_limit;

    return query
    select c.at, ('4.' || c.id || '.held') collate "C", json_build_object(
        'at', interlock.ts(c.at), 'what', 'held', 'job_id', c.target,
        'error', 'its result could not be checked'
            || coalesce(': ' || nullif(c.detail, ''), ''))
    from interlock.check_answers c
    cross join lateral (
        select x.kind, x.kind_version from interlock.jobs x
        where x.tenant = c.tenant and x.id = c.target
        limit 1) j
    cross join lateral (
        select x.result_check from interlock.kind_versions x
        where x.tenant = c.tenant and x.name = j.kind
            and x.version = j.kind_version
        limit 1) k
    where c.tenant = p_tenant and c.work_key = p_key and c.at >= p_from
        and c.subject = 'job' and c.outcome = 'exhausted'
        and coalesce(k.result_check::json ->> 'on_exhausted', 'hold') = 'hold'
        and (c.at, ('4.' || c.id || '.held') collate "C") > (p_from, p_after)
    order by c.at, 2 limit p_limit;

    return query
    select x.at, ('5.' || x.revision || '.' || x.fence) collate "C",
        json_build_object(
        'at', interlock.ts(x.at), 'what', 'published',
        'revision', x.revision, 'fence', x.fence, 'version', x.version,
        'job_id', x.job_id, 'by', x.origin)
    from (select r.created_at as at, r.revision, r.fence, r.version,
              r.job_id, r.origin
          from interlock.results r
          where r.tenant = p_tenant and r.work_key = p_key and r.published
              and r.created_at >= p_from
          union all
          select p.at, p.revision, p.fence, r.version, r.job_id, 'publish'
          from interlock.publications p
          cross join lateral (
              select y.version, y.job_id from interlock.results y
              where y.tenant = p.tenant and y.work_key = p.work_key
                  and y.revision = p.revision
              limit 1) r
          where p.tenant = p_tenant and p.work_key = p_key
              and p.at >= p_from) x
    where (x.at, ('5.' || x.revision || '.' || x.fence) collate "C")
        > (p_from, p_after)
    order by x.at, 2 limit p_limit;

    return query
    select a.at, ('6.' || a.id) collate "C", json_build_object(
        'at', interlock.ts(a.at), 'what', 'action', 'action', a.what,
        'target', a.target, 'requested_by', a.requested_by,
        'reason', a.reason, 'token_id', a.token_id,
        'token_name', a.token_name, 'detail', a.detail)
    from interlock.actions a
    where a.tenant = p_tenant and a.work_key = p_key and a.at >= p_from
        and (a.at, ('6.' || a.id) collate "C") > (p_from, p_after)
    order by a.at, 2 limit p_limit;

    return query
    select j.finished_at, ('7.' || j.id) collate "C", json_build_object(
        'at', interlock.ts(j.finished_at), 'what', 'expired',
        'job_id', j.id, 'error', j.error)
    from interlock.jobs_ended j
    where j.tenant = p_tenant and j.work_key = p_key
        and j.status = 'expired' and j.finished_at >= p_from
        and (j.finished_at, ('7.' || j.id) collate "C") > (p_from, p_after)
    order by j.finished_at, 2 limit p_limit;

    return query
    select e.at, e.place, e.doc
    from (select x.at, x.doc, ('8.' || row_number() over (
              partition by x.at order by x.doc::text collate "C"))
              collate "C" as place
          from interlock.audit_effects(p_tenant, p_key) x
          where x.at >= p_from) e
    where (e.at, e.place) > (p_from, p_after)
    order by e.at, 2 limit p_limit;
end
$$;

-- audit_ended(a): the entry of an attempt's end.  Whether it may be tried again
-- is a word about failures; who completes or hands back says none.
create or replace function interlock.audit_ended(a interlock.attempts)
returns json
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select json_object_agg(e.name, e.value order by e.n)
    from (values
        (1, 'at', to_json(interlock.ts(a.ended_at))),
        (2, 'what', to_json('ended'::text)),
        (3, 'job_id', to_json(a.job_id)),
        (4, 'attempt', to_json(a.attempt)),
        (5, 'fence', to_json(a.fence)),
        (6, 'worker', to_json(a.worker)),
        (7, 'call', to_json(a.call)),
        (8, 'status', to_json(a.status)),
        (9, 'error', to_json(a.error)),
        (10, 'retryable', to_json(a.retryable)),
        (11, 'user_message', to_json(a.user_message)),
        (12, 'log_url', to_json(a.log_url)),
        (13, 'step', to_json(a.step)),
        (14, 'revision', to_json(a.revision)),
        (15, 'retry_at', to_json(interlock.ts(a.retry_at)))
        ) e (n, name, value)
    where e.name <> 'retryable' or a.call in ('fail', 'lost')
$$;

revoke all on function interlock.audit_ended(interlock.attempts) from public;
revoke all on function interlock.audit_open(int, text, json) from public;
revoke all on function interlock.audit_line(int, text, timestamptz, text,
    int)
    from public;
revoke all on function interlock.audit(int, text, int, text) from public;
grant execute on function interlock.audit(int, text, int, text)
    to interlock_service;
