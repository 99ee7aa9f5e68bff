-- claim(…): who: interlockd's claim batcher; one element a waiting worker.
--
-- Finds the heads of the runnable jobs of the wanted kinds by index
-- (order_key, see order_of), shares them out in turn among the ords that ask
-- for a kind, and grants each a lease with a fence above all earlier ones of
-- its work key.  A job whose limit group is full or may not start another one
-- yet becomes limited instead, so that nobody meets it again; then up to some
-- hundred more of those behind it a round.
--
-- Locks: advisory locks of the claim ids, in order (so that a claim whose
-- COMMIT was lost is over before its repeat looks); works of the candidates
-- FOR NO KEY UPDATE SKIP LOCKED.  Only if every candidate's work is locked by
-- others and none by us, it waits for them, in key order: so it never waits
-- for a work while it holds one, and a key that is always busy is claimed all
-- the same.  What a candidate is, is read again after its work is locked.
-- Then the limit groups of the candidates, by name: it waits once, and skips
-- what is locked in later rounds.  Live attempts are counted after that.
--
-- Nothing of a paused kind is granted.
--
-- Jobs in no limit group, of kinds without virtual times, are granted all at
-- once (claim_plain) where it does not matter which ord gets which.
--
-- Answers: one row a grant.  A claim id that has live leases gets just these
-- again.  No row: nothing for that ord.
-- step and checkpoint are the last ones that an earlier attempt left; earlier
-- is a JSON array of the attempts that ended (job_attempts), effects one of
-- the effects in the job's scope (effects_of_scope).  A first attempt costs
-- nothing for these, save a look whether its key has any effects if its scope
-- is the work.
create or replace function interlock.claim(
    p_claim_id uuid[], p_tenant int[], p_worker text[], p_kinds text[],
    p_max int[])
returns table (ord int, attempt_id uuid, job_id uuid, attempt int, kind text,
    work_key text, fence bigint, expires_at timestamptz, remaining_ms bigint,
    lease_seconds int, token_exp timestamptz, payload bytea,
    content_type text, headers text, traceparent text, waited_ms bigint,
    step text, checkpoint text, earlier text, effects text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    n         int := cardinality(p_claim_id);
    v_now     timestamptz;
    v_left    int[];            -- still wanted, by ord
    v_total   int;
    v_tk_t    int[] := '{}';    -- wanted (tenant, kind) pairs ...
    v_tk_k    text[] := '{}';
    v_ords    int[] := '{}';    -- ... the ords that want each, one behind
    v_from    int[] := '{}';    --     the other: from here ...
    v_len     int[] := '{}';    --     ... so many
    v_want    int[];            -- how many jobs of each pair
    v_turn    int[];            -- whose turn it is
    v_tried   uuid[] := '{}';
    v_cand    uuid[];           -- candidates, in order ...
    v_ten     int[];            -- ... their tenants, keys and pairs
    v_key     text[];
    v_pair    int[];
    v_mine    int[];            -- places of those whose work we locked, ...
    v_work    tid[];            -- ... ctid and ...
    v_fence   bigint[];         -- ... fence of these works
    v_deal    int[];            -- whose turn it is, if all are plain
    v_got     int;
    v_again   boolean := false; -- an ord has leases from before
    v_done    boolean := false; -- no other ord has leases to be told
    v_told    uuid[] := '{}';   -- attempts that were told already
    v_i       int;
    v_o       int;
    g_ord     int[];
    g_ten     int[];
    g_job     uuid[];
    v_extra   int := 0;         -- more candidates, if some were held back
    v_any_g   boolean;
    v_plain   boolean;          -- see claim_plain
    v_held    int[];            -- limit groups that we hold: tenants ...
    v_held_g  text[] := '{}';   -- ... names, tenant/group ...
    v_room    bigint[] := '{}'; -- ... room left (null: no bound), ...
    v_next    timestamptz[] := '{}';    -- ... next start allowed ...
    v_step    interval[] := '{}';       -- ... the time between starts, ...
    v_slack   interval[] := '{}';       -- ... and how early one may come
    v_by      text;
    v_p       int;
    h_ten     int[];            -- held back: jobs, and each by which group
    h_job     uuid[];
    h_by      text[];
    f_ten     int[] := '{}';    -- virtual times that were reached
    f_kind    text[] := '{}';
    f_v       timestamptz[] := '{}';
    r         record;
begin
    perform set_config('synchronous_commit', 'on', true);

    if n = 0 then
        return;
    end if;

    perform pg_advisory_xact_lock(hashtextextended(c.id::text, 0))
    from (select distinct u.id from unnest(p_claim_id) u (id)
          order by u.id) c;

    -- Leases that these claims made already.
    v_left := p_max;
    for r in
        select u.ord::int as ord
        from unnest(p_claim_id, p_tenant) with ordinality
            as u (claim_id, tenant, ord)
        cross join lateral (
            select from interlock.leases l
            where l.tenant = u.tenant and l.claim_id = u.claim_id
            limit 1) l
    loop
        v_left[r.ord] := 0;
        v_again := true;
    end loop;

    for r in
        select u.tenant, k.kind, array_agg(u.ord::int order by u.ord) as ords
        from unnest(p_tenant, p_kinds, v_left) with ordinality
            as u (tenant, kinds, want, ord)
        cross join lateral (
            select distinct x.kind
            from unnest(string_to_array(u.kinds, ',')) x (kind)) k
        where u.want > 0
            and not exists (
                select from interlock.pauses p
                where p.tenant = u.tenant and p.what = 'kind'
                    and p.name = k.kind)
        group by u.tenant, k.kind
        order by u.tenant, k.kind
    loop
        v_tk_t := v_tk_t || r.tenant;
        v_tk_k := v_tk_k || r.kind;
        v_from := v_from || cardinality(v_ords);
        v_len := v_len || cardinality(r.ords);
        v_ords := v_ords || r.ords;
    end loop;

    v_turn := array_fill(0, array[cardinality(v_tk_t)]);

    for round in 1 .. 8 loop
        exit when round > 4 and v_extra = 0;
        select coalesce(sum(x), 0) into v_total from unnest(v_left) x;
        exit when v_total = 0 or cardinality(v_tk_t) = 0;

        select array_agg((select coalesce(sum(v_left[v_ords[x]]), 0)
                          from generate_series(v_from[i] + 1,
                                               v_from[i] + v_len[i]) x)
                         order by i)
        into v_want
        from generate_series(1, cardinality(v_tk_t)) i;

        v_now := clock_timestamp();

        -- Candidates: a few more than wanted, for some may be taken.
        -- Among kinds by the time that a job has waited from; within a kind
        -- whose keys are of virtual time, no sooner than those before it.
        select array_agg(c.id order by c.at, c.order_key, c.id),
            array_agg(c.tenant order by c.at, c.order_key, c.id),
            array_agg(c.work_key order by c.at, c.order_key, c.id),
            array_agg(c.i order by c.at, c.order_key, c.id),
            bool_or(c.groups is not null),
            bool_and(c.groups is null and c.tag is null)
                and count(distinct c.work_key) = count(*)
        into v_cand, v_ten, v_key, v_pair, v_any_g, v_plain
        from (
            select p.tenant, p.i::int as i, c.*,
                case when c.tag is null then c.order_key
                else max(least(c.order_key, c.created_at
                             + (c.order_key - c.tag))) over (
                    partition by p.i order by c.order_key, c.id) end as at
            from unnest(v_tk_t, v_tk_k, v_want) with ordinality
                as p (tenant, kind, want, i)
            cross join lateral (
                (select j.id, j.work_key, j.order_key, j.created_at, j.tag,
                     j.groups
                 from interlock.jobs_live j
                 where j.tenant = p.tenant and j.kind = p.kind
                     and j.place = 'ready' and j.id <> all (v_tried)
                 order by j.order_key, j.id
                 limit p.want + 16 + v_extra)
                union all
                (select j.id, j.work_key, j.order_key, j.created_at, j.tag,
                     j.groups
                 from interlock.jobs_live j
                 where j.tenant = p.tenant and j.kind = p.kind
                     and j.place = 'delayed' and j.run_at <= v_now
                     and j.id <> all (v_tried)
                 order by j.run_at, j.id
                 limit p.want + 16 + v_extra)) c
            where p.want > 0) c;

        exit when v_cand is null;

        select array_agg(m.n), array_agg(m.tid), array_agg(m.fence)
        into v_mine, v_work, v_fence
        from (
            select u.n::int as n, l.tid, l.fence
            from unnest(v_ten, v_key) with ordinality
                as u (tenant, work_key, n)
            cross join lateral (
                select w.ctid as tid, w.fence from interlock.works w
                where w.tenant = u.tenant and w.work_key = u.work_key
                for no key update skip locked) l
            limit v_total + v_extra) m;

        if v_mine is null and round = 1 then
            select array_agg(m.n order by m.n) into v_mine
            from (
                select u.n::int as n
                from (select x.*
                      from (select y.*
                            from unnest(v_ten, v_key) with ordinality
                                as y (tenant, work_key, n)
                            order by y.n limit v_total) x
                      order by x.tenant, x.work_key) u
                cross join lateral (
                    select from interlock.works w
                    where w.tenant = u.tenant and w.work_key = u.work_key
                    for no key update) l) m;
        end if;

        exit when v_mine is null;

        v_deal := case when v_plain and round = 1 and v_work is not null
            then interlock.claim_deal(v_ords, v_left,
                                      cardinality(v_tk_t)) end;
        if v_deal is not null then
            return query
            select * from interlock.claim_plain(
                array(select v_ten[x] from unnest(v_mine) x),
                array(select v_cand[x] from unnest(v_mine) x),
                v_work, v_fence, v_deal, p_claim_id, p_worker);
            get diagnostics v_got = row_count;

            -- All that there were, or were wanted.
            v_done := v_got = v_total or v_got = cardinality(v_cand);
            exit when v_done and not v_again;

            for i in 1 .. v_got loop
                v_left[v_deal[i]] := v_left[v_deal[i]] - 1;
            end loop;
            v_told := array(
                select l.attempt_id
                from (select distinct x from unnest(v_deal[:v_got]) x) u
                cross join lateral (
                    select y.attempt_id from interlock.leases y
                    where y.tenant = p_tenant[u.x]
                        and y.claim_id = p_claim_id[u.x]
                    limit 100000) l);
            exit when v_done;
            continue;
        end if;

        -- Their limit groups, by name; what is left of each is read in a
        -- later statement.
        if v_any_g then
            v_p := cardinality(v_held_g);
            for r in select * from interlock.claim_groups(v_ten, v_cand,
                v_mine, v_held_g, v_p > 0)
            loop
                v_held := v_held || r.tenant;
                v_held_g := v_held_g || (r.tenant || '/' || r.name);
            end loop;
            for i in v_p + 1 .. cardinality(v_held_g) loop
                select * into r from interlock.claim_room(v_held[i],
                    substr(v_held_g[i], strpos(v_held_g[i], '/') + 1));
                v_room[i] := r.room;
                v_next[i] := r.next_start;
                v_step[i] := r.step;
                v_slack[i] := r.slack;
            end loop;
        end if;

        -- Ours now: what are they?  Deal them out in turn.
        v_now := clock_timestamp();
        v_extra := 0;
        g_ord := '{}';
        g_ten := '{}';
        g_job := '{}';
        h_ten := '{}';
        h_job := '{}';
        h_by := '{}';

        for r in
            select j.*, v_pair[u.pos] as pair
            from unnest(v_mine) with ordinality as u (pos, n)
            cross join lateral (
                select x.tenant, x.id, x.place, x.run_at, x.exclusive,
                    x.work_key, x.kind, x.groups, x.tag, x.order_key,
                    x.started_at, x.expire_at
                from interlock.jobs_live x
                where x.tenant = v_ten[u.pos] and x.id = v_cand[u.pos]
                limit 1) j
            where (j.place = 'ready' or (j.place = 'delayed'
                                         and j.run_at <= v_now))
                and (j.started_at is not null
                     or coalesce(j.expire_at > v_now, true))
                and not (j.exclusive and coalesce((
                    select true from interlock.leases l
                    where l.tenant = j.tenant and l.work_key = j.work_key
                        and l.exclusive
                    limit 1), false))
            order by u.n
        loop
            v_i := r.pair;
            v_tried := v_tried || r.id;

            if r.groups is not null then
                v_by := null;
                for i in 1 .. cardinality(r.groups) loop
                    v_p := array_position(v_held_g,
                                          r.tenant || '/' || r.groups[i]);
                    if v_p is null then
                        v_by := '';    -- somebody else's just now
                        exit;
                    elsif v_room[v_p] <= 0
                        or v_next[v_p] - v_slack[v_p] > v_now
                    then
                        v_by := r.groups[i];
                        exit;
                    end if;
                end loop;

                if v_by <> '' then
                    h_ten := h_ten || r.tenant;
                    h_job := h_job || r.id;
                    h_by := h_by || v_by;
                end if;
                continue when v_by is not null;
            end if;

            for step in 1 .. v_len[v_i] loop
                v_o := v_ords[v_from[v_i] + 1 + v_turn[v_i]];
                v_turn[v_i] := (v_turn[v_i] + 1) % v_len[v_i];
                if v_left[v_o] > 0 then
                    v_left[v_o] := v_left[v_o] - 1;
                    g_ord := g_ord || v_o;
                    g_ten := g_ten || r.tenant;
                    g_job := g_job || r.id;

                    for i in 1 .. coalesce(cardinality(r.groups), 0) loop
                        v_p := array_position(v_held_g,
                            r.tenant || '/' || r.groups[i]);
                        v_room[v_p] := v_room[v_p] - 1;
                        v_next[v_p] := greatest(v_next[v_p], v_now)
                            + v_step[v_p];
                    end loop;
                    if r.tag is not null then
                        f_ten := f_ten || r.tenant;
                        f_kind := f_kind || r.kind;
                        f_v := f_v || (least(r.tag, r.order_key)
                                       + interval '1 second');
                    end if;
                    exit;
                end if;
            end loop;
        end loop;

        perform interlock.claim_grant(g_ord, g_ten, g_job,
            p_claim_id, p_worker);

        if cardinality(h_job) > 0 then
            v_extra := 200;
            perform interlock.claim_hold(h_ten, h_job, h_by);
        end if;
    end loop;

    -- What these groups have room for: a job held back by one group may have
    -- stood in for the room of another; and whose turn is next at its time.
    if cardinality(v_held_g) > 0 then
        perform interlock.claim_settle(v_held, v_held_g, v_next);
    end if;

    if cardinality(f_v) > 0 then
        perform interlock.claim_pace(f_ten, f_kind, f_v);
    end if;

    if v_done and not v_again then
        return;
    end if;

    return query
    select u.ord::int, l.attempt_id, l.job_id, l.attempt, l.kind, l.work_key,
        l.fence, l.expires_at,
        greatest(0, floor(extract(epoch from
            l.expires_at - clock_timestamp()) * 1000))::bigint,
        l.lease_seconds, l.runtime_end + interval '7 days',
        p.payload, p.content_type, p.headers, p.traceparent,
        coalesce(l.waited_ms, 0)::bigint, l.step, l.checkpoint::text,
        coalesce(case when j.started_at < l.granted_at
            then interlock.job_attempts(l.tenant, l.job_id) end, '[]')::text,
        coalesce(case when j.rerun_of is not null
                or ((j.started_at < l.granted_at or k.scope = 'work')
                    and exists (select from interlock.effects e
                                where e.tenant = l.tenant
                                    and e.work_key = l.work_key))
            then interlock.effects_of_scope(l.tenant, l.job_id) end,
            '[]')::text
    from unnest(p_claim_id, p_tenant) with ordinality
        as u (claim_id, tenant, ord)
    cross join lateral (
        select x.* from interlock.leases x
        where x.tenant = u.tenant and x.claim_id = u.claim_id
            and x.attempt_id <> all (v_told)
        order by x.granted_at
        limit 100000) l
    cross join lateral (
        select x.order_key, x.started_at, x.rerun_of, x.kind_version
        from interlock.jobs_live x
        where x.tenant = l.tenant and x.id = l.job_id
        limit 1) j
    cross join lateral (
        select interlock.effect_scope_of(x.effect_scope, x.when_completed)
            as scope
        from interlock.kind_versions x
        where x.tenant = l.tenant and x.name = l.kind
            and x.version = j.kind_version
        limit 1) k
    cross join lateral (
        select x.* from interlock.payloads x
        where x.tenant = l.tenant and x.job_id = l.job_id
        limit 1) p
    order by u.ord, j.order_key, l.job_id;
end
$$;

-- claim_grant(ords, tenants, jobs, claim ids, workers): makes the leases of
-- jobs that claim has found claimable and whose works it has locked.  The
-- fences of several jobs of one work key (overlap allow) follow each other.
-- Takes no lock but those of the rows of these works.
create or replace function interlock.claim_grant(
    p_ord int[], p_tenant int[], p_job uuid[], p_claim_id uuid[],
    p_worker text[])
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_now    timestamptz := clock_timestamp();
    v_ten    int[];
    v_key    text[];
    v_fence  bigint[];
begin
    with ins as (
        insert into interlock.leases (tenant, attempt_id, claim_id, job_id,
            kind, work_key, exclusive, fence, attempt, worker, granted_at,
            expires_at, runtime_end, lease_seconds, step, progress,
            checkpoint, groups, renewed_at, waited_ms)
        select g.tenant, gen_random_uuid(), p_claim_id[g.ord], j.id, j.kind,
            j.work_key, j.exclusive,
            greatest(w.fence, w.fence_floor) + row_number() over (
                partition by g.tenant, j.work_key order by g.n),
            j.attempts + 1, p_worker[g.ord], v_now,
            v_now + make_interval(
                secs => least(k.lease_seconds, k.max_runtime)),
            v_now + make_interval(secs => k.max_runtime),
            k.lease_seconds, j.step, j.progress, j.checkpoint, j.groups,
            v_now, least(2147483647, greatest(0, floor(extract(epoch from
                v_now - j.run_at) * 1000)))
        from unnest(p_ord, p_tenant, p_job) with ordinality
            as g (ord, tenant, job, n)
        cross join lateral (
            select x.* from interlock.jobs_live x
            where x.tenant = g.tenant and x.id = g.job
            limit 1) j
        cross join lateral (
            select x.fence, t.fence_floor
            from interlock.works x, interlock.tenants t
            where x.tenant = g.tenant and x.work_key = j.work_key
                and t.id = g.tenant
            limit 1) w
        cross join lateral (
            select x.lease_seconds, x.max_runtime
            from interlock.kind_versions x
            where x.tenant = g.tenant and x.name = j.kind
                and x.version = j.kind_version
            limit 1) k
        returning tenant, work_key, fence, attempt_id, groups),
    grp as (
        insert into interlock.lease_groups (tenant, group_name, attempt_id)
        select i.tenant, g.name, i.attempt_id
        from ins i cross join lateral unnest(i.groups) g (name))
    select array_agg(x.tenant), array_agg(x.work_key), array_agg(x.fence)
    into v_ten, v_key, v_fence
    from (select i.tenant, i.work_key, max(i.fence) as fence
          from ins i group by i.tenant, i.work_key) x;

    -- By ctid, which nobody moves while we hold the works: a join on the key
    -- itself, planned while the tables were empty, would read them whole.
    update interlock.works w set fence = y.fence
    from (select x.ctid as tid, u.fence
          from unnest(v_ten, v_key, v_fence) as u (tenant, work_key, fence)
          cross join lateral (
              select z.ctid from interlock.works z
              where z.tenant = u.tenant and z.work_key = u.work_key
              limit 1) x) y
    where w.ctid = y.tid;

    update interlock.jobs_live j
    set status = 'running', place = null, retry_at = null,
        attempts = j.attempts + 1,
        started_at = coalesce(j.started_at, v_now),
        changed = pg_current_xact_id()
    from (select x.ctid as tid
          from unnest(p_tenant, p_job) as u (tenant, job)
          cross join lateral (
              select z.ctid from interlock.jobs_live z
              where z.tenant = u.tenant and z.id = u.job
              limit 1) x) y
    where j.ctid = y.tid;
end
$$;

-- claim_pace(tenants, kinds, times): moves the virtual times of these kinds
-- on, without waiting: whoever finds one locked leaves it to the next claim.
create or replace function interlock.claim_pace(
    p_tenant int[], p_kind text[], p_v timestamptz[])
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
    update interlock.kind_pace p set v = greatest(p.v, y.v)
    from (select l.tid, u.v
          from (select x.tenant, x.kind, max(x.v) as v
                from unnest(p_tenant, p_kind, p_v) x (tenant, kind, v)
                group by 1, 2) u
          cross join lateral (
              select z.ctid as tid from interlock.kind_pace z
              where z.tenant = u.tenant and z.kind = u.kind
              limit 1
              for no key update skip locked) l) y
    where p.ctid = y.tid;
end
$$;

revoke all on function interlock.claim_pace(int[], text[], timestamptz[])
    from public;
revoke all on function interlock.claim(uuid[], int[], text[], text[], int[])
    from public;
revoke all on function interlock.claim_grant(int[], int[], uuid[], uuid[],
    text[]) from public;
grant execute on function interlock.claim(uuid[], int[], text[], text[],
    int[]) to interlock_service;
