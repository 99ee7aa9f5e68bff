-- check.sql: what must hold whenever no call is under way.  Each query states
-- one invariant and returns no row; a row names what is wrong, as (check_name,
-- what).  Run at the end of every test that wrote, as the owner, in one
-- snapshot.  sql/README.md says which constraint or lock holds each of them.

with live as (
    select l.tenant, l.work_key, l.job_id, l.attempt_id, l.fence,
        l.granted_at, null::timestamptz as ended_at, true as counted
    from interlock.leases l
    union all
    select a.tenant, a.work_key, a.job_id, a.id, a.fence, a.granted_at,
        a.ended_at, a.call not in ('release', 'unclaim')
    from interlock.attempts a
),
fences as (
    select l.tenant, l.work_key, l.fence from live l
    union all
    select p.tenant, p.work_key, p.fence from interlock.publications p
),
head as (
    select j.tenant, j.work_key, count(*) filter (where j.exclusive) as n
    from interlock.jobs_live j
    where j.status in ('running', 'checking', 'held')
        or j.place in ('ready', 'delayed', 'limited')
    group by 1, 2
),
room as (
    select g.tenant, g.name, l.capacity, l.start_rate,
        (select count(*) from interlock.lease_groups x
         where x.tenant = g.tenant and x.group_name = g.name) as live,
        (select count(*) from interlock.jobs_live j
         where j.tenant = g.tenant and j.limited_by = g.name
             and j.place in ('ready', 'delayed')) as have,
        (select count(*) from interlock.jobs_live j
         where j.tenant = g.tenant and j.limited_by = g.name
             and j.place = 'limited') as waiting
    from interlock.limit_groups g
    left join interlock.limits l
        on l.tenant = g.tenant and l.name = g.limit_name
),
-- What is older than that may be named, and is not kept any more.
gone as (select h.gone_id as id, h.gone_to as to_at from interlock.history h)

-- G2, G6: arrivals and jobs answer each other
select 'request admitted without its job' as check_name,
    format('%s/%s', q.tenant, q.id) as what
from interlock.requests q
where q.decision in ('accepted', 'buffered', 'replaced', 'parked')
    and not exists (select from interlock.jobs j
                    where j.tenant = q.tenant and j.id = q.id
                        and j.decision = q.decision
                        and j.work_key = q.work_key)
union all
select 'job without its request', format('%s/%s', j.tenant, j.id)
from interlock.jobs j
where j.rerun_of is null
    and not exists (select from interlock.requests q
                    where q.tenant = j.tenant and q.id = j.id)
union all
select 'job without its payload row', format('%s/%s', j.tenant, j.id)
from interlock.jobs j
where not exists (select from interlock.payloads p
                  where p.tenant = j.tenant and p.job_id = j.id)
union all
select 'answer names a job that is not there', format('%s/%s', q.tenant, q.id)
from interlock.requests q
cross join lateral unnest(array[q.job_id, q.active_job_id,
                                q.superseded_job_id]) x (id)
where x.id >= (select g.id from gone g)
    and not exists (select from interlock.jobs j
                    where j.tenant = q.tenant and j.id = x.id)
union all
select 'duplicate of what is no first request', format('%s/%s', q.tenant, q.id)
from interlock.requests q
left join interlock.requests f
    on f.tenant = q.tenant and f.id = q.first_request
where q.decision = 'duplicate'
    and not (f.id is null and q.first_request < (select g.id from gone g))
    and (f.id is null or f.decision = 'duplicate' or f.code >= 400
         or f.source <> q.source
         or f.idempotency_key is distinct from q.idempotency_key)
union all
select 'idempotency key held by a request that failed or is not there',
    format('%s/%s/%s', i.tenant, i.source, i.key)
from interlock.idempotency i
left join interlock.requests q
    on q.tenant = i.tenant and q.id = i.request_id
where (q.id is null or q.code >= 400 or q.source <> i.source
       or q.idempotency_key is distinct from i.key)
    and not (i.request_id < (select g.id from gone g)
             and i.expires_at < clock_timestamp())

-- G3: one owner per work key
union all
select 'more than one exclusive job at the head of a key',
    format('%s/%s', h.tenant, h.work_key)
from head h where h.n > 1
union all
select 'two exclusive attempts of one key at once',
    format('%s/%s fences %s and %s', x.tenant, x.work_key, x.prev, x.fence)
from (select l.tenant, l.work_key, l.fence, l.granted_at,
          lag(l.fence) over w as prev,
          lag(coalesce(l.ended_at, 'infinity')) over w as prev_end
      from live l
      join interlock.jobs j on j.tenant = l.tenant and j.id = l.job_id
      where j.exclusive
      window w as (partition by l.tenant, l.work_key order by l.fence)) x
where x.prev_end > x.granted_at
union all
select 'running job without its lease', format('%s/%s', j.tenant, j.id)
from interlock.jobs j
where j.status = 'running'
    and not exists (select from interlock.leases l
                    where l.tenant = j.tenant and l.job_id = j.id
                        and l.work_key = j.work_key
                        and l.exclusive = j.exclusive)
union all
select 'lease without its running job', format('%s/%s', l.tenant, l.attempt_id)
from interlock.leases l
where not exists (select from interlock.jobs j
                  where j.tenant = l.tenant and j.id = l.job_id
                      and j.status = 'running')

-- G4: fences
union all
select 'fence given twice', format('%s/%s %s', l.tenant, l.work_key, l.fence)
from fences l
group by l.tenant, l.work_key, l.fence having count(*) > 1
union all
select 'work behind its fences', format('%s/%s', w.tenant, w.work_key)
from interlock.works w
where w.fence < (select max(l.fence) from fences l
                 where l.tenant = w.tenant and l.work_key = w.work_key)
union all
select 'job or attempt of a key that is not there',
    format('%s/%s', x.tenant, x.work_key)
from (select j.tenant, j.work_key, j.kind from interlock.jobs j
      union select a.tenant, a.work_key, a.kind from interlock.attempts a
      union select l.tenant, l.work_key, l.kind from interlock.leases l) x
where not exists (select from interlock.works w
                  where w.tenant = x.tenant and w.work_key = x.work_key
                      and w.kind = x.kind)
union all
select 'attempt both live and ended', format('%s/%s', l.tenant, l.attempt_id)
from interlock.leases l
join interlock.attempts a on a.tenant = l.tenant and a.id = l.attempt_id

-- G8: the limit holds
union all
select 'lease and its limit groups differ',
    format('%s/%s', coalesce(l.tenant, g.tenant),
           coalesce(l.attempt_id, g.attempt_id))
from (select x.tenant, x.attempt_id, y.name
      from interlock.leases x cross join lateral unnest(x.groups) y (name)) l
full join interlock.lease_groups g on g.tenant = l.tenant
    and g.attempt_id = l.attempt_id and g.group_name = l.name
where l.name is null or g.group_name is null
union all
select 'job''s limit group is not there', format('%s/%s %s',
    j.tenant, j.id, x.name)
from interlock.jobs j cross join lateral unnest(j.groups) x (name)
where j.finished_at is null
    and not exists (select from interlock.limit_groups g
                    where g.tenant = j.tenant and g.name = x.name
                        and g.limit_name = interlock.limit_of(x.name))

-- (a capacity that was lowered ends nothing, so attempts older than the
-- change may be more)
union all
select 'more live attempts than the limit allows',
    format('%s/%s: %s of %s', r.tenant, r.name, r.live, r.capacity)
from room r
where r.live > r.capacity
    and not exists (select from interlock.limits l
                    where l.tenant = r.tenant
                        and l.name = interlock.limit_of(r.name)
                        and l.updated_at > (
                            select min(x.granted_at)
                            from interlock.lease_groups g
                            join interlock.leases x on x.tenant = g.tenant
                                and x.attempt_id = g.attempt_id
                            where g.tenant = r.tenant
                                and g.group_name = r.name))

-- (limits_sweep sees to what is left for a second)
union all
select 'waits for a limit that has room (a wake-up was lost)',
    format('%s/%s', r.tenant, r.name)
from room r
where r.waiting > 0 and r.have = 0 and (r.capacity is null
    or r.live < r.capacity)

-- the line of a key
union all
select 'parked although its line has room', format('%s/%s', j.tenant, j.id)
from (select distinct on (x.tenant, x.work_key) x.*
      from interlock.jobs x where x.status = 'parked'
      order by x.tenant, x.work_key, x.turn) j
join interlock.kind_versions v on v.tenant = j.tenant and v.name = j.kind
    and v.version = j.kind_version
where v.max_waiting > (select count(*) from interlock.jobs x
                       where x.tenant = j.tenant
                           and x.work_key = j.work_key
                           and x.place = 'blocked')
union all
select 'waits behind one that is parked', format('%s/%s', j.tenant, j.id)
from interlock.jobs j
where j.place = 'blocked'
    and exists (select from interlock.jobs x
                where x.tenant = j.tenant and x.work_key = j.work_key
                    and x.status = 'parked' and x.turn < j.turn)
union all
select 'running job that is to end, but whose lease does not know',
    format('%s/%s', j.tenant, j.id)
from interlock.jobs j
join interlock.leases l on l.tenant = j.tenant and l.job_id = j.id
where j.ending <> l.cancel_requested
    or (l.cancel_requested and (l.cancel_deadline is null
                                or l.expires_at > l.cancel_deadline))
union all
select 'refused for want of room, but holds its key',
    format('%s/%s', q.tenant, q.id)
from interlock.requests q
join interlock.idempotency i on i.tenant = q.tenant
    and i.source = q.source and i.key = q.idempotency_key
    and i.request_id = q.id
where q.code >= 400

-- G7: every job ends, or something is there that will move it
union all
select 'waits behind nothing (a wake-up was lost)',
    format('%s/%s', j.tenant, j.id)
from interlock.jobs j
where j.place = 'blocked'
    and not exists (select from head h
                    where h.tenant = j.tenant and h.work_key = j.work_key)
    and not (select interlock.effects_hold_key(f.tenant, f.work_key, f)
             from interlock.jobs f
             where f.tenant = j.tenant and f.work_key = j.work_key
                 and f.place = 'blocked'
             order by f.turn limit 1)
union all
select 'checks effects that are settled (a wake-up was lost)',
    format('%s/%s', j.tenant, j.id)
from interlock.jobs j
where j.status = 'checking' and j.waits_on = 'effects'
    and not interlock.effects_unsettled(j.tenant, j)

-- Effects: each row is the end of its history
union all
select 'effect and its history differ', format('%s/%s', e.tenant, e.id)
from interlock.effects e
left join lateral (
    select count(*) filter (where h.moved) as moves, max(h.seq) as seq,
        (array_agg(h.to_state order by h.id desc)
            filter (where h.moved))[1] as state,
        count(*) filter (where h.moved and h.to_state = 'failed') as fails
    from interlock.effects_history h
    where h.tenant = e.tenant and h.effect_id = e.id) x on true
where x.moves is distinct from e.seq or x.seq <> e.seq
    or x.state <> e.state or x.fails < e.round - 1
union all
select 'history of an effect that is not there',
    format('%s/%s', h.tenant, h.effect_id)
from interlock.effects_history h
where not exists (select from interlock.effects e
                  where e.tenant = h.tenant and e.id = h.effect_id)
union all
select 'effect under way without its send, or with another''s',
    format('%s/%s', e.tenant, e.id)
from interlock.effects e
where e.state = 'intended'
    and not exists (select from interlock.sends s
                    where s.tenant = e.tenant and s.id = e.open_send
                        and s.effect_id = e.id and s.round = e.round
                        and s.outcome is null and s.deadline = e.open_until)
union all
select 'sends miscounted', format('%s/%s', e.tenant, e.id)
from interlock.effects e
where e.sends <> (select count(*) from interlock.sends s
                  where s.tenant = e.tenant and s.effect_id = e.id
                      and s.round = e.round)

-- G5: no effect is silently repeated
union all
select 'confirmed more than once', format('%s/%s', h.tenant, h.effect_id)
from interlock.effects_history h
where h.moved and h.to_state = 'confirmed'
group by h.tenant, h.effect_id having count(*) > 1
union all
select 'sent again in one round although the provider honours no key',
    format('%s/%s', s.tenant, s.id)
from interlock.sends s
join interlock.effects e on e.tenant = s.tenant and e.id = s.effect_id
where s.repeats > 0
    or exists (select from interlock.sends p
               where p.tenant = s.tenant and p.effect_id = s.effect_id
                   and p.round = s.round and p.n < s.n)
group by s.tenant, s.id, e.kind, s.effect_id, s.round
having exists (
    select from interlock.sends p
    join interlock.effect_kind_versions v on v.tenant = p.tenant
        and v.name = e.kind and v.version = p.kind_version
    where p.tenant = s.tenant and p.effect_id = s.effect_id
        and p.round = s.round
    having not bool_and(v.idempotent)
        or count(distinct lower(v.key_header)) > 1)
union all
select 'failed although a send of its round happened',
    format('%s/%s', e.tenant, e.id)
from interlock.effects e
join interlock.sends s on s.tenant = e.tenant and s.effect_id = e.id
    and s.round = e.round and s.outcome = 'confirmed'
where e.state = 'failed'
union all
select 'failed while a send of its round could still go out',
    format('%s/%s', h.tenant, h.effect_id)
from interlock.effects_history h
join interlock.sends s on s.tenant = h.tenant and s.effect_id = h.effect_id
    and s.round = h.round and s.heard is null
    and s.begun_at <= h.at and s.deadline > h.at
where h.moved and h.to_state = 'failed' and h.what in ('resolve', 'look-up')
union all
select 'unknown, and nobody will find out', format('%s/%s', e.tenant, e.id)
from interlock.effects e
where e.state = 'unknown' and e.human_at is null
    and not exists (select from interlock.checks c
                    where c.tenant = e.tenant and c.target = e.id
                        and c.seq = e.seq)
union all
select 'settled by nobody, or without a reason',
    format('%s/%s', h.tenant, h.effect_id)
from interlock.effects_history h
where h.what = 'resolve'
    and (interlock.is_blank(h.requested_by) or interlock.is_blank(h.reason))

-- G4: only who owned the job sent, and what it sent has ended with it
union all
select 'send by an attempt that was not the owner',
    format('%s/%s', s.tenant, s.id)
from interlock.sends s
join interlock.effects e on e.tenant = s.tenant and e.id = s.effect_id
where not exists (select from live l
                  where l.tenant = s.tenant and l.attempt_id = s.attempt_id
                      and l.job_id = s.job_id and l.fence = s.fence
                      and l.work_key = e.work_key
                      and l.granted_at <= s.begun_at
                      and coalesce(l.ended_at, 'infinity') >= s.begun_at)
union all
select 'send without an outcome although its attempt has ended',
    format('%s/%s', s.tenant, s.id)
from interlock.sends s
where s.outcome is null
    and not exists (select from interlock.leases l
                    where l.tenant = s.tenant
                        and l.attempt_id = s.attempt_id)

-- the chain over their history
union all
select 'chain with a gap, or of a row that is not there',
    format('%s/%s', c.tenant, c.n)
from (select x.*, lag(x.hash) over w as before, lag(x.n) over w as n_before
      from interlock.effects_chain x
      window w as (partition by x.tenant order by x.n)) c
where c.n <> coalesce(c.n_before, 0) + 1
    or c.prev <> coalesce(c.before, decode(repeat('00', 32), 'hex'))
    or not exists (select from interlock.effects_history h
                   where h.tenant = c.tenant and h.id = c.history_id)
union all
select 'chain ends elsewhere', format('%s', d.tenant)
from interlock.effects_chain_ends d
where d.n <> (select count(*) from interlock.effects_chain c
              where c.tenant = d.tenant)
union all
select 'effects miscounted', format('%s/%s %s', x.tenant, x.effect_kind,
    x.state)
from (select c.tenant, c.effect_kind, c.state, c.n
      from interlock.effect_counts() c
      union all
      select e.tenant, e.kind, e.state, -count(*)
      from interlock.effects e group by 1, 2, 3) x
group by x.tenant, x.effect_kind, x.state having sum(x.n) <> 0

-- what people decided
union all
select 'taken back from failed by nobody', format('%s/%s', j.tenant, j.id)
from interlock.jobs j
where j.revivals <> (
    select count(*) from interlock.actions a
    where a.tenant = j.tenant and a.target = j.id::text
        and (a.what = 'redrive'
             or (a.what = 'job_decide' and a.detail ->> 'was' = 'failed')))
union all
select 'decision of nobody, or without a reason',
    format('%s/%s', a.tenant, a.id)
from interlock.actions a
where a.what in ('job_decide', 'redrive')
    and (coalesce(a.requested_by, '') = '' or coalesce(a.reason, '') = '')
union all
select 'redriven by no plan', format('%s/%s', a.tenant, a.id)
from interlock.actions a
where a.what = 'redrive'
    and a.at > clock_timestamp() - interlock.retain('slots')
    and not exists (
        select from interlock.redrive_jobs r
        where r.tenant = a.tenant and r.job_id = a.target::uuid
            and r.plan_id = (a.detail ->> 'plan_id')::uuid
            and r.outcome = 'redriven')
union all
select 'result by a decision that was not made',
    format('%s/%s revision %s', r.tenant, r.work_key, r.revision)
from interlock.results r
where r.origin = 'decide'
    and not exists (
        select from interlock.actions a
        where a.tenant = r.tenant and a.target = r.job_id::text
            and a.what = 'job_decide' and a.detail ->> 'action' = 'succeed')
union all
select 'result of no attempt, but not of its job''s last fence',
    format('%s/%s revision %s', r.tenant, r.work_key, r.revision)
from interlock.results r
where r.attempt_id is null
    and r.fence <> (select coalesce(max(l.fence), 0) from live l
                    where l.tenant = r.tenant and l.job_id = r.job_id)
union all
select 'attempts miscounted', format('%s/%s has %s, not %s',
    j.tenant, j.id, j.attempts, coalesce(x.n, 0))
from interlock.jobs j
left join (select l.tenant, l.job_id, count(*) filter (where l.counted) as n
           from live l group by 1, 2) x
    on x.tenant = j.tenant and x.job_id = j.id
where j.attempts <> coalesce(x.n, 0)
union all
select 'more attempts than its policy allows', format('%s/%s', j.tenant, j.id)
from interlock.jobs j
join interlock.kind_versions v on v.tenant = j.tenant and v.name = j.kind
    and v.version = j.kind_version
where j.attempts - j.attempts_base > v.max_attempts
union all
select 'superseded by no later job of its key', format('%s/%s', j.tenant, j.id)
from interlock.jobs j
left join interlock.jobs s on s.tenant = j.tenant and s.id = j.superseded_by
where j.status = 'superseded'
    and (s.id is null or s.work_key <> j.work_key
         or s.created_at < j.created_at)
union all
select 'job of no known policy', format('%s/%s', j.tenant, j.id)
from interlock.jobs j
where not exists (select from interlock.kind_versions v
                  where v.tenant = j.tenant and v.name = j.kind
                      and v.version = j.kind_version)

-- G9: published results only move forward
union all
select 'published result is not there', format('%s/%s', w.tenant, w.work_key)
from interlock.works w
where w.published_revision is not null
    and not exists (select from interlock.results r
                    where r.tenant = w.tenant and r.work_key = w.work_key
                        and r.revision = w.published_revision
                        and r.published and r.fence = w.published_fence)
    and not exists (select from interlock.publications p
                    where p.tenant = w.tenant and p.work_key = w.work_key
                        and p.revision = w.published_revision
                        and p.fence = w.published_fence)
union all
select 'a later published result has a lower fence or version',
    format('%s/%s revision %s', x.tenant, x.work_key, x.revision)
from (select r.tenant, r.work_key, r.revision, r.fence, r.version,
          max(r.fence) over w as fence_before,
          max(r.version) over w as version_before
      from interlock.results r
      where r.published
      window w as (partition by r.tenant, r.work_key order by r.revision
                   rows between unbounded preceding and 1 preceding)) x
where x.fence <= x.fence_before or x.version < x.version_before
union all
select 'revisions have a gap', format('%s/%s', w.tenant, w.work_key)
from interlock.works w
where w.last_revision <> (select count(*) from interlock.results r
                          where r.tenant = w.tenant
                              and r.work_key = w.work_key)
union all
select 'succeeded without a result', format('%s/%s', j.tenant, j.id)
from interlock.jobs j
where j.status = 'succeeded'
    and not exists (select from interlock.results r
                    where r.tenant = j.tenant and r.work_key = j.work_key
                        and r.revision = j.revision)
union all
select 'result of an attempt that did not complete',
    format('%s/%s revision %s', r.tenant, r.work_key, r.revision)
from interlock.results r
where r.origin = 'complete'
    and r.created_at >= (select g.to_at from gone g)
    and not exists (select from interlock.attempts a
                  where a.tenant = r.tenant and a.id = r.attempt_id
                      and a.call = 'complete' and a.fence = r.fence
                      and a.job_id = r.job_id)
union all
select 'newest version is not that of its jobs',
    format('%s/%s', w.tenant, w.work_key)
from interlock.works w
left join (select j.tenant, j.work_key, max(j.version) as version
           from interlock.jobs j group by 1, 2) x
    on x.tenant = w.tenant and x.work_key = w.work_key
where w.max_version is distinct from x.version
    and (w.max_version_job < (select g.id from gone g)) is not true
union all
select 'a job waits for its result check, and nobody checks',
    format('%s/%s', j.tenant, j.id)
from interlock.jobs j
where j.waits_on = 'result check' and j.status = 'checking'
    and not exists (select from interlock.checks c
                    where c.tenant = j.tenant and c.target = j.id
                        and c.subject = 'job')
union all
select 'a result check of a job that does not wait for it',
    format('%s/%s', c.tenant, c.target)
from interlock.checks c
left join interlock.jobs j on j.tenant = c.tenant and j.id = c.target
where c.subject = 'job'
    and (j.status is distinct from 'checking'
         or j.waits_on is distinct from 'result check'
         or j.work_key <> c.work_key)

-- G10: every slot is accounted for, once; those that prune may have taken are
-- not looked for
union all
select 'slots of a schedule are not accounted for',
    format('%s/%s: %s of %s', s.tenant, s.name, x.seen, x.want)
from interlock.schedules s
join interlock.schedule_versions v on v.tenant = s.tenant
    and v.name = s.name and v.version = s.version
cross join lateral (
    select greatest(s.since, clock_timestamp() - interlock.retain('slots')
        + interval '1 day') as at) f
cross join lateral (
    select (select count(distinct y.at)
            from (select l.slot_at as at from interlock.slots l
                  where l.tenant = s.tenant and l.schedule = s.name
                      and l.version = s.version and l.slot_at <= s.scanned_to
                      and l.slot_at > f.at
                  union all
                  select k.to_at from interlock.schedule_skips k
                  where k.tenant = s.tenant and k.schedule = s.name
                      and k.version = s.version and k.slots = 1
                      and k.to_at > f.at) y)
        + coalesce((select sum(case when k.from_at > f.at then k.slots
                            else interlock.cron_count(v.masks, v.zone, f.at,
                                k.to_at, v.gap, v.fold) end)
                    from interlock.schedule_skips k
                    where k.tenant = s.tenant and k.schedule = s.name
                        and k.version = s.version and k.slots > 1
                        and k.to_at > f.at), 0)
        as seen,
        interlock.cron_count(v.masks, v.zone, greatest(f.at,
            v.start_at - interval '1 microsecond'), least(s.scanned_to,
            v.end_at - interval '1 microsecond'), v.gap, v.fold) as want) x
where x.seen <> x.want
union all
select 'schedule looks for another slot than its next one',
    format('%s/%s', s.tenant, s.name)
from interlock.schedules s
join interlock.schedule_versions v on v.tenant = s.tenant
    and v.name = s.name and v.version = s.version
where s.next_at is distinct from case when not s.deleted then
    coalesce(s.slot_at, interlock.schedule_next(v, s.scanned_to)) end
union all
select 'schedule without its subjects', format('%s/%s version %s', v.tenant,
    v.name, v.version)
from interlock.schedule_versions v
where v.subjects <> (select count(*) from interlock.schedule_subjects x
                     where x.tenant = v.tenant and x.name = v.name
                         and x.list = v.list)
union all
select 'slot admitted twice', format('%s/%s', q.tenant, q.idempotency_key)
from interlock.requests q
where q.source = 'schedule' and q.idempotency_key is not null
    and q.decision in ('accepted', 'buffered', 'replaced', 'parked')
group by q.tenant, q.idempotency_key having count(*) > 1
union all
select 'slot whose job is another one''s', format('%s/%s %s %s', s.tenant,
    s.schedule, s.slot_at, s.subject)
from interlock.slots s
left join interlock.jobs j on j.tenant = s.tenant and j.id = s.job_id
where s.job_id >= (select g.id from gone g)
    and j.work_key is distinct from s.work_key
union all
select 'slot that is not done, and nobody looks', format('%s/%s %s %s',
    s.tenant, s.schedule, s.slot_at, s.subject)
from interlock.slots s
where s.state in ('waiting', 'admitted') and s.check_at is null
    and not exists (select from interlock.gaps g
                    where g.tenant = s.tenant and g.schedule = s.schedule
                        and g.slot_at = s.slot_at and g.subject = s.subject
                        and g.state = 'dismissed')
union all
select 'slot that waits in a line that nobody tries', format('%s/%s %s %s',
    s.tenant, s.schedule, s.slot_at, s.subject)
from interlock.slots s
left join interlock.slot_lines l on l.tenant = s.tenant
    and l.schedule = s.schedule and l.lane = s.lane
left join interlock.schedules h on h.tenant = s.tenant
    and h.name = s.schedule
where s.lane is not null and (h.try_at <= l.try_at) is not true
union all
select 'slot whose job is another slot''s', format('%s/%s %s %s', s.tenant,
    s.schedule, s.slot_at, s.subject)
from interlock.slots s
join interlock.requests q on q.tenant = s.tenant and q.id = s.job_id
where s.state in ('admitted', 'run') and q.source = 'schedule'
    and starts_with(q.idempotency_key, 'slot:' || s.schedule || ':')
    and q.idempotency_key <> interlock.slot_ref(s.schedule, s.slot_at,
                                                s.subject)
union all
select 'gap of no slot, or of one that is done', format('%s/%s', g.tenant,
    g.id)
from interlock.gaps g
left join interlock.slots s on s.tenant = g.tenant
    and s.schedule = g.schedule and s.slot_at = g.slot_at
    and s.subject = g.subject
where s.work_key is distinct from g.work_key
    or (g.state in ('open', 'approved') and s.state in ('run', 'skipped'))
union all
select 'gap decided by nobody', format('%s/%s', g.tenant, g.id)
from interlock.gaps g
where g.state in ('approved', 'dismissed')
    and not exists (select from interlock.actions a
                    where a.tenant = g.tenant and a.target = g.id::text
                        and a.what in ('gap_approve', 'gap_dismiss'))
union all
select 'plan with other works than it counts', format('%s/%s', p.tenant,
    p.id)
from interlock.schedule_plans p
where p.count <> (select count(*) from interlock.schedule_plan_items i
                  where i.tenant = p.tenant and i.plan_id = p.id)
union all
select 'rerun of another work, or by nobody', format('%s/%s', j.tenant,
    j.id)
from interlock.jobs j
left join interlock.jobs o on o.tenant = j.tenant and o.id = j.rerun_of
where j.rerun_of is not null
    and (o.work_key is distinct from j.work_key
         or coalesce(j.requested_by, '') = '' or coalesce(j.reason, '') = '')
union all
select 'an alert''s event or state has no event that opened it',
    format('%s/%s %s', x.tenant, x.alert, x.opened)
from (select s.tenant, s.alert, s.condition, s.subject,
          s.event_id as opened
      from interlock.alert_states s where s.event_id is not null
      union all
      select e.tenant, e.alert, e.condition, e.subject, e.opened_event
      from interlock.alert_events e where e.state = 'recovered') x
left join interlock.alert_events o on o.tenant = x.tenant
    and o.id = x.opened and o.state = 'opened'
where (o.alert, o.condition, o.subject)
    is distinct from (x.alert, x.condition, x.subject)
union all
select 'a condition opened twice for an alert, or was over twice',
    format('%s/%s %s %s', x.tenant, x.alert, x.condition, x.subject)
from (select e.tenant, e.alert, e.condition, e.subject, e.state,
          lag(e.state) over (partition by e.tenant, e.alert, e.condition,
              e.subject order by e.seq) as former, a.created_at, e.at
      from interlock.alert_events e
      join interlock.alerts a on a.tenant = e.tenant and a.name = e.alert
          and a.created_at <= e.at) x
where x.former = x.state
union all
select 'an event of an alert that is neither taken, dropped nor on its way',
    format('%s/%s', e.tenant, e.id)
from interlock.alert_events e
where e.delivered_at is null and e.dropped_at is null
    and not exists (select from interlock.alert_deliveries d
                    where d.tenant = e.tenant and d.event_id = e.id)
union all
select 'an event on its way to an alert that does not know when',
    format('%s/%s', d.tenant, d.event_id)
from interlock.alert_deliveries d
left join interlock.alerts a on a.tenant = d.tenant and a.name = d.alert
where a.due_at is null
union all
select 'a job that is live and has ended', format('%s/%s', j.tenant, j.id)
from interlock.jobs_live j
join interlock.jobs_ended e on e.tenant = j.tenant and e.id = j.id
union all
select 'the inbox and what it is about differ',
    format('%s/%s', coalesce(x.tenant, b.tenant), coalesce(x.id, b.id))
from (select j.tenant, 'job:' || j.id as id, j.status as state
      from interlock.jobs j where j.status in ('held', 'parked')
      union all
      select e.tenant, 'effect:' || e.id, e.state
      from interlock.effects e where e.state = 'needs_human') x
full join (
    select i.* from interlock.inbox i
    where i.state in ('held', 'parked', 'needs_human')) b
    on b.tenant = x.tenant and b.id = x.id and b.state = x.state
where x.id is null or b.id is null
order by 1, 2;
