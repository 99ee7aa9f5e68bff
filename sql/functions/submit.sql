-- submit(…): who: interlockd's submission batcher; arrays of equal length,
-- one element a request, ord its place (from 1).
--
-- Locks, in this order: rows of idempotency (new ones inserted in key order,
-- then expired ones replaced in key order) → rows of works (new ones inserted
-- in key order, then present ones FOR NO KEY UPDATE in key order; without
-- p_wait SKIP LOCKED) → leases by id, of keys under overlap replace → rows
-- that belong to these works → queue_looks, near a bound → limit groups by
-- name, if a job was held back by one.  Every judgement is made in a
-- statement after the one that locked.
--
-- Answers one row a request:
--   ok       decided and stored; replayed when it is the answer of an earlier
--            request with the same idempotency key
--   problem  refused; stores nothing, except 422 idempotency-key-reused, 429
--            queue-full and 409 work-active, which are requests with a
--            decision
--   busy     somebody else holds the work key (or the first of two equal
--            requests came to nothing just now): nothing stored, submit again
-- The same request id again (after a COMMIT of unknown end) gets its first
-- answer, with replayed as it was.
--
-- policy is the overlap that decided.  wake_kinds are kinds of which a job
-- may start now, or soon at a time that runnable() knows, because of this
-- batch; its first row of a tenant tells those of limit groups too.
--
-- hold is for how many milliseconds an edge may give a repeat (same work key,
-- same fingerprint) the decision skipped with this row's job by itself; null:
-- not at all.  See hold_of.
--
-- Refuses: source-paused 503, kind-unknown 404, fresh-not-allowed 400,
-- field-invalid 400 (priority; or a kind of look-ups, result-check or
-- effect-check, of which only checks_hand_out makes jobs),
-- work-key-mismatch 400, body-too-large 413,
-- work-kind 409, work-active 409, idempotency-key-reused 422, queue-full 429.
create or replace function interlock.submit(
    p_tenant int[], p_request_id uuid[], p_source text[], p_idem text[],
    p_fingerprint bytea[], p_mismatch text[], p_kind text[],
    p_work_key text[], p_version bigint[], p_payload bytea[],
    p_content_type text[], p_headers text[], p_traceparent text[],
    p_priority int[], p_run_after timestamptz[], p_deadline timestamptz[],
    p_fresh boolean[], p_requested_by text[], p_reason text[],
    p_wait boolean)
returns table (ord int, outcome text, code int, decision text, reason text,
    problem text, detail text, job_id uuid, status text, kind text,
    work_key text, active_job_id uuid, superseded_job_id uuid,
    result_url text, retry_after int, done_for int, replayed boolean,
    runnable boolean, ended_jobs uuid[], policy text, wake_kinds text[],
    hold int)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    n           int := cardinality(p_tenant);
    v_now       timestamptz;
    v_ids       uuid[];             -- the requests' ids, in order
    v_go        boolean[];
    v_odd       boolean[];          -- seen before, or refused
    v_kver      int[];
    v_ttl       int[];
    v_hold      int[];
    v_age       interval[];         -- priority × aging
    v_max_wait  int[];
    v_dup       boolean[] := array_fill(false, array[n]);
    v_first     uuid[];
    v_fast      boolean[] := array_fill(false, array[n]);
    v_new       uuid[];
    v_n         int;
    v_any_dup   boolean := false;
    v_goes      int;                -- how many go on
    v_idems     int;                -- and of those with a key
    v_slow      int := 0;
    v_overlap   text[];
    v_special   boolean[];
    v_prio      int[];
    v_any_rep   boolean;
    v_plain     boolean[];                        -- fast, set by set
    v_run       boolean[] := array_fill(false, array[n]);
    v_i         int;
    v_any_spec  boolean;
    v_any_tight boolean := false;
    v_pair      int[];
    v_room      bigint[] := '{}';   -- by pair of tenant and kind ...
    v_full      text[] := '{}';     -- ... and which bound it is
    v_r         bigint;
    v_undo      uuid[] := '{}';
    v_g_tenant  int[] := '{}';      -- limit groups of admitted jobs
    v_g_name    text[] := '{}';
    v_h_tenant  int[] := '{}';      -- those to settle
    v_h_name    text[] := '{}';
    v_wake      text[] := array_fill(null::text, array[n]);
    d           interlock.decision;
    b           record;
    v_out       interlock.submit_answer[] := '{}';
    a           interlock.submit_answer;
    s           interlock.submission;
    k           interlock.kind_versions;
    r           record;
begin
    perform set_config('synchronous_commit', 'on', true);

    if n = 0 then
        return;
    end if;

    -- 1. Known already?  Which policy?  Kinds are few, and looked for once
    -- each.  The bounds of the ids say which weeks of requests there are to
    -- look at.
    v_ids := (select array_agg(x order by x) from unnest(p_request_id) x);

    with k as materialized (
        select y.*, z.paused
        from (select distinct x.tenant, x.kind, x.source
              from unnest(p_tenant, p_kind, p_source)
                  as x (tenant, kind, source)) x
        left join lateral (
            select true as paused from interlock.pauses z
            where z.tenant = x.tenant and z.what = 'source'
                and z.name = x.source
            limit 1) z on true
        cross join lateral (
            select x.tenant, x.kind, x.source, v.*
            from (select) o
            left join lateral (
                select v.version, v.idempotency_ttl, v.allow_fresh,
                    v.max_payload, v.overlap, v.key_pattern, v.priority,
                    v.aging, v.max_wait,
                    -- hold_of(…, 'accepted'), without its cost
                    case when v.overlap not in ('allow', 'buffer_all')
                        and (v.overlap = 'skip'
                             or v.when_completed = 'return')
                        and v.on_busy <> 'error'
                        then nullif(v.hold * 1000, 0) end as hold,
                    v.limits <> '{}' or v.fair_part is not null
                        or v."order" <> 'oldest' as special
                from interlock.kinds d, interlock.kind_versions v
                where d.tenant = x.tenant and d.name = x.kind
                    and not d.deleted and v.tenant = d.tenant
                    and v.name = d.name and v.version = d.version
                limit 1) v on true) y)
    select array_agg(y.version), array_agg(y.idempotency_ttl),
        array_agg(y.overlap),
        array_agg(case when not y.again then y.hold end),
        array_agg(y.special),
        array_agg(y.prio), array_agg(y.age), array_agg(y.max_wait),
        array_agg(y.odd), array_agg(not y.odd),
        count(*) filter (where not y.odd),
        count(*) filter (where not y.odd and y.idem is not null),
        bool_or(y.special), bool_or(y.overlap = 'replace')
    into v_kver, v_ttl, v_overlap, v_hold, v_special, v_prio, v_age,
        v_max_wait, v_odd, v_go, v_goes, v_idems, v_any_spec, v_any_rep
    from (select k.*, u.idem, u.fresh as again, p.prio, u.ord,
              make_interval(secs => p.prio::float8 * k.aging) as age,
              coalesce(q.seen or k.paused or k.version is null
                  or u.fresh and not k.allow_fresh
                  or u.priority not between -100 and 100
                  or u.work_key !~ k.key_pattern
                  or octet_length(u.payload) > k.max_payload
                  or u.kind in ('result-check', 'effect-check')
                      and u.source <> 'check', false) as odd
          from unnest(p_tenant, p_request_id, p_source, p_idem, p_kind,
                      p_work_key, p_fresh, p_payload, p_priority)
              with ordinality
              as u (tenant, request_id, source, idem, kind, work_key, fresh,
                    payload, priority, ord)
          left join lateral (
              select true as seen from interlock.requests x
              where x.tenant = u.tenant and x.id = u.request_id
                  and x.id >= v_ids[1] and x.id <= v_ids[n]
              limit 1) q on true
          cross join k
          cross join lateral (
              select coalesce(u.priority, k.priority) as prio) p
          where k.tenant is not distinct from u.tenant
              and k.kind is not distinct from u.kind
              and k.source is not distinct from u.source
          order by u.ord) y;

    if v_goes < n then
        for v_i in select u.ord from unnest(v_odd) with ordinality
                as u (odd, ord) where u.odd order by u.ord
        loop
            select * into b from interlock.submit_odd(v_i, p_tenant[v_i], p_request_id[v_i],
                p_source[v_i], p_idem[v_i], p_fingerprint[v_i], p_kind[v_i],
                p_work_key[v_i], p_priority[v_i], p_fresh[v_i],
                octet_length(p_payload[v_i]));
            if b.first is not null then
                v_first[v_i] := b.first;
                v_dup[v_i] := true;
                v_any_dup := true;
            else
                a := b.a;
                v_out := v_out || a;
            end if;
        end loop;
    end if;

    -- 2. Idempotency keys: insert in key order, then look whose they are.
    if v_idems > 0 then
        v_now := clock_timestamp();

        with ins as (
            insert into interlock.idempotency (tenant, source, key,
                request_id, fingerprint, expires_at)
            select u.tenant, u.source, u.idem, u.request_id, u.fingerprint,
                v_now + make_interval(secs => u.ttl)
            from unnest(p_tenant, p_source, p_idem, p_request_id,
                        p_fingerprint, v_ttl, v_go)
                with ordinality as u (tenant, source, idem, request_id,
                    fingerprint, ttl, go, ord)
            where u.go and u.idem is not null
            order by u.tenant, u.source, u.idem, u.ord
            on conflict do nothing
            returning 1)
        select count(*) into v_n from ins;

        -- Some of them were there.
        if v_n < v_idems then
            for r in
                select u.ord::int as ord, u.tenant, u.source, u.idem,
                    u.request_id, u.fingerprint, u.ttl, i.first, i.expires_at
                from unnest(p_tenant, p_source, p_idem, p_request_id,
                            p_fingerprint, v_ttl, v_go)
                    with ordinality as u (tenant, source, idem, request_id,
                        fingerprint, ttl, go, ord)
                left join lateral (
                    select x.request_id as first, x.expires_at
                    from interlock.idempotency x
                    where x.tenant = u.tenant and x.source = u.source
                        and x.key = u.idem
                    limit 1) i on true
                where u.go and u.idem is not null
                    and i.first is distinct from u.request_id
                order by u.tenant, u.source, u.idem, u.ord
            loop
                v_first[r.ord] := r.first;

                -- Over, and its job ended: the key is free again.
                if r.expires_at <= v_now then
                    v_first[r.ord] := interlock.idempotency_renew(r.tenant,
                        r.source, r.idem, r.request_id, r.fingerprint,
                        v_now + make_interval(secs => r.ttl));
                end if;

                if v_first[r.ord] is distinct from r.request_id then
                    v_go[r.ord] := false;
                    v_dup[r.ord] := true;
                    v_any_dup := true;
                    v_goes := v_goes - 1;
                end if;
            end loop;
        end if;
    end if;

    -- 3. Works: insert what is new, in key order; lock the rest, in key order.
    with ins as (
        insert into interlock.works (tenant, work_key, kind, max_version,
            max_version_job, first_request)
        select x.tenant, x.work_key, x.kind,
            case when x.cnt = 1 then x.version end,
            case when x.cnt = 1 and x.version is not null
                 then x.request_id end,
            x.request_id
        from (select u.tenant, u.work_key, u.kind, u.version, u.request_id,
                  row_number() over w as rn, count(*) over (
                      partition by u.tenant, u.work_key) as cnt
              from unnest(p_tenant, p_work_key, p_kind, p_version,
                          p_request_id, v_go)
                  with ordinality as u (tenant, work_key, kind, version,
                      request_id, go, ord)
              where u.go
              window w as (partition by u.tenant, u.work_key
                           order by u.ord)) x
        where x.rn = 1
        order by x.tenant, x.work_key
        on conflict do nothing
        returning first_request)
    select array_agg(i.first_request) into v_new from ins i;

    -- All new, and each wanted once: nothing is active, and nobody else sees
    -- these rows, let alone locks them.
    if coalesce(cardinality(v_new), 0) = v_goes then
        v_fast := v_go;
        v_go := array_fill(false, array[n]);
    else
        if p_wait then
            perform from (
                select distinct u.tenant, u.work_key
                from unnest(p_tenant, p_work_key, v_go)
                    as u (tenant, work_key, go)
                where u.go
                order by u.tenant, u.work_key) u
            cross join lateral (
                select from interlock.works x
                where x.tenant = u.tenant and x.work_key = u.work_key
                for no key update) l;
        end if;

        -- What is not ours now is busy.  A key that is new and wanted once needs
        -- no look: nothing can be active.
        for r in
            select u.ord::int as ord, u.tenant, u.source, u.idem, u.request_id,
                u.kind, u.work_key, l.mine,
                u.cnt = 1 and u.request_id in (select unnest(v_new)) as fast
            from (select x.*, count(*) over (
                      partition by x.tenant, x.work_key) as cnt
                  from unnest(p_tenant, p_source, p_idem, p_request_id, p_kind,
                              p_work_key, v_go)
                      with ordinality as x (tenant, source, idem, request_id,
                          kind, work_key, go, ord)
                  where x.go
                  order by x.tenant, x.work_key, x.ord) u
            left join lateral (
                select true as mine from interlock.works x
                where x.tenant = u.tenant and x.work_key = u.work_key
                for no key update skip locked) l on true
        loop
            if r.mine is null then
                if r.idem is not null then
                    delete from interlock.idempotency i
                    where i.tenant = r.tenant and i.source = r.source
                        and i.key = r.idem and i.request_id = r.request_id;
                end if;
                v_go[r.ord] := false;
                v_out := v_out || interlock.submit_busy(r.ord, r.kind,
                                                        r.work_key);
            elsif r.fast then
                v_fast[r.ord] := true;
                v_go[r.ord] := false;
            else
                v_slow := v_slow + 1;
            end if;
        end loop;

        -- Whoever may be revoked: his lease, by id.
        if v_any_rep and v_slow > 0 then
            perform from (
                select distinct l.tenant, l.attempt_id
                from unnest(p_tenant, p_work_key, v_go, v_overlap)
                    as u (tenant, work_key, go, overlap)
                cross join lateral (
                    select x.tenant, x.attempt_id from interlock.leases x
                    where x.tenant = u.tenant and x.work_key = u.work_key
                        and x.exclusive
                    limit 1) l
                where u.go and u.overlap = 'replace'
                order by l.tenant, l.attempt_id) k
            cross join lateral (
                select from interlock.leases x
                where x.tenant = k.tenant and x.attempt_id = k.attempt_id
                for no key update) l;
        end if;
    end if;

    -- Is there room for all of them?  If not, each asks by itself.
    for b in
        select u.*, v.max_queued, t.max_queued as tenant_bound
        from (select x.tenant, x.kind, x.kver, count(*) as want,
                  array_agg(x.ord::int) as ords
              from unnest(p_tenant, p_kind, v_kver, v_go, v_fast)
                  with ordinality as x (tenant, kind, kver, go, fast, ord)
              where x.go or x.fast
              group by x.tenant, x.kind, x.kver) u
        cross join lateral (
            select x.max_queued from interlock.kind_versions x
            where x.tenant = u.tenant and x.name = u.kind
                and x.version = u.kver
            limit 1) v
        cross join lateral (
            select x.max_queued from interlock.tenants x
            where x.id = u.tenant
            limit 1) t
        order by u.tenant, u.kind
    loop
        v_room := v_room || interlock.queue_room(b.tenant, b.kind,
            b.max_queued, b.want);
        v_full := v_full || 'kind_full'::text;
        if b.tenant_bound is not null then
            v_r := interlock.queue_room(b.tenant, '', b.tenant_bound,
                                        b.want);
            if v_r < v_room[cardinality(v_room)] then
                v_room[cardinality(v_room)] := v_r;
                v_full[cardinality(v_full)] := 'tenant_full';
            end if;
        end if;

        continue when v_slow = 0 and v_room[cardinality(v_room)] >= b.want;

        foreach v_i in array b.ords loop
            v_pair[v_i] := cardinality(v_room);
            if v_room[v_pair[v_i]] < b.want then
                v_any_tight := true;
                v_undo := v_undo || p_request_id[v_i];
                if v_fast[v_i] then
                    v_fast[v_i] := false;
                    v_go[v_i] := true;
                    v_slow := v_slow + 1;
                end if;
            end if;
        end loop;
    end loop;

    -- These are not admitted yet, so their versions are not either.
    if v_any_tight then
        update interlock.works w
        set max_version = null, max_version_job = null
        from (select x.ctid as tid
              from unnest(p_tenant, p_work_key, p_request_id)
                  as u (tenant, work_key, request_id)
              cross join lateral (
                  select z.ctid from interlock.works z
                  where z.tenant = u.tenant and z.work_key = u.work_key
                      and z.first_request = u.request_id
                  limit 1) x
              where u.request_id = any (v_undo)) y
        where w.ctid = y.tid;
    end if;

    v_now := clock_timestamp();

    v_plain := v_fast;

    -- 4a. New keys of kinds with limits or an order of their own.
    if v_any_spec then
        for s in
            select u.ord, u.tenant, u.request_id, u.source, null::text,
                null::bytea, null::text, u.kind, u.kver, u.work_key,
                u.version, u.payload, u.content_type, u.headers,
                u.traceparent, u.priority, u.run_after, u.deadline, u.fresh,
                u.requested_by, u.reason
            from unnest(p_tenant, p_request_id, p_source, p_kind, v_kver,
                        p_work_key, p_version, p_payload, p_content_type,
                        p_headers, p_traceparent, p_priority, p_run_after,
                        p_deadline, p_fresh, p_requested_by, p_reason,
                        v_fast, v_special)
                with ordinality as u (tenant, request_id, source, kind, kver,
                    work_key, version, payload, content_type, headers,
                    traceparent, priority, run_after, deadline, fresh,
                    requested_by, reason, fast, special, ord)
            where u.fast and u.special
            order by u.ord
        loop
            select * into strict k from interlock.kind_versions x
            where x.tenant = s.tenant and x.name = s.kind
                and x.version = s.kind_version;

            d := null;
            d.decision := 'accepted';
            d.status := 'queued';
            select * into b from interlock.job_insert(s, k, d, v_now);

            v_run[s.ord] := b.place = 'ready';
            if b.groups is not null then
                v_g_tenant := v_g_tenant
                    || array_fill(s.tenant, array[cardinality(b.groups)]);
                v_g_name := v_g_name || b.groups;
                if b.place = 'limited' then
                    v_h_tenant := v_h_tenant || array_fill(s.tenant,
                        array[cardinality(b.groups)]);
                    v_h_name := v_h_name || b.groups;
                end if;
            end if;
            v_plain[s.ord] := false;
        end loop;
    end if;

    -- 4b. The other new keys, and the requests of both, set by set.
    if v_goes > v_slow then
        perform interlock.submit_plain(p_tenant, p_request_id, p_source,
            p_idem, p_fingerprint, p_kind, p_work_key, p_version, p_payload,
            p_content_type, p_headers, p_traceparent, p_run_after,
            p_deadline, p_fresh, p_requested_by, p_reason, v_kver, v_overlap,
            v_prio, v_age, v_max_wait, v_fast, v_plain, v_now);
    end if;

    -- 5. Known keys, one by one, in order of arrival.
    if v_slow > 0 then
        for s in
            select u.ord, u.tenant, u.request_id, u.source, u.idem,
                u.fingerprint, u.mismatch, u.kind, u.kver, u.work_key,
                u.version, u.payload, u.content_type, u.headers,
                u.traceparent, u.priority, u.run_after, u.deadline, u.fresh,
                u.requested_by, u.reason
            from unnest(p_tenant, p_request_id, p_source, p_idem,
                        p_fingerprint, p_mismatch, p_kind, v_kver,
                        p_work_key, p_version, p_payload, p_content_type,
                        p_headers, p_traceparent, p_priority, p_run_after,
                        p_deadline, p_fresh, p_requested_by, p_reason, v_go)
                with ordinality as u (tenant, request_id, source, idem,
                    fingerprint, mismatch, kind, kver, work_key, version,
                    payload, content_type, headers, traceparent, priority,
                    run_after, deadline, fresh, requested_by, reason, go,
                    ord)
            where u.go
            order by u.ord
        loop
            select * into strict k from interlock.kind_versions x
            where x.tenant = s.tenant and x.name = s.kind
                and x.version = s.kind_version;

            select * into b from interlock.submit_one(s, k,
                v_room[v_pair[s.ord]], v_full[v_pair[s.ord]]);
            a := b.a;

            if b.grew then
                v_room[v_pair[s.ord]] := v_room[v_pair[s.ord]] - 1;
            end if;
            if b.groups <> '{}' then
                v_g_tenant := v_g_tenant
                    || array_fill(s.tenant, array[cardinality(b.groups)]);
                v_g_name := v_g_name || b.groups;
                if b.held then
                    v_h_tenant := v_h_tenant || array_fill(s.tenant,
                        array[cardinality(b.groups)]);
                    v_h_name := v_h_name || b.groups;
                end if;
            end if;

            -- A request that failed never occupies its key.
            if a.outcome = 'problem' and s.idem is not null then
                delete from interlock.idempotency i
                where i.tenant = s.tenant and i.source = s.source
                    and i.key = s.idem and i.request_id = s.request_id;
            end if;

            v_out := v_out || a;
        end loop;
    end if;

    -- 6. Duplicates, now that the firsts of this batch have their answers.
    if v_any_dup then
        for s in
            select u.ord, u.tenant, u.request_id, u.source, u.idem,
                u.fingerprint, u.mismatch, u.kind, null::int, u.work_key,
                u.version, null::bytea, null::text, null::text, null::text,
                null::int, null::timestamptz, null::timestamptz, u.fresh,
                u.requested_by, u.reason
            from unnest(p_tenant, p_request_id, p_source, p_idem,
                        p_fingerprint, p_mismatch, p_kind, p_work_key,
                        p_version, p_fresh, p_requested_by, p_reason, v_dup)
                with ordinality as u (tenant, request_id, source, idem,
                    fingerprint, mismatch, kind, work_key, version, fresh,
                    requested_by, reason, dup, ord)
            where u.dup
            order by u.ord
        loop
            v_out := v_out
                || interlock.submit_duplicate(s, v_first[s.ord]);
        end loop;
    end if;

    -- 7. A work that was made for a request that was then refused goes again,
    -- unless another one of this batch has a job in it.
    if v_any_tight then
        delete from interlock.works w
        using (select x.ctid as tid
               from unnest(p_tenant, p_work_key, p_request_id)
                   as u (tenant, work_key, request_id)
               cross join lateral (
                   select z.ctid from interlock.works z
                   where z.tenant = u.tenant and z.work_key = u.work_key
                       and z.first_request = u.request_id
                       and not exists (
                           select from interlock.jobs_live j
                           where j.tenant = z.tenant
                               and j.work_key = z.work_key
                               and j.status in ('queued', 'running',
                                   'checking', 'held'))
                   limit 1) x
               where u.request_id = any (v_undo)) y
        where w.ctid = y.tid;
    end if;

    -- 8. Limit groups.
    if cardinality(v_g_name) > 0 then
        perform interlock.groups_ensure(v_g_tenant, v_g_name);
        for b in
            select g.tenant, string_agg(distinct g.kind, ',') as kinds
            from interlock.groups_settle(v_h_tenant, v_h_name) g
            group by g.tenant
        loop
            v_wake[array_position(p_tenant, b.tenant)] := b.kinds;
        end loop;
    end if;

    if v_goes > v_slow then
        return query
        select u.ord::int, 'ok', 202, 'accepted', null::text, null::text,
            null::text, u.id, 'queued', u.kind, u.work_key, null::uuid,
            null::uuid, null::text, null::int,
            case when u.idem is not null then u.ttl end, false, x.runnable,
            '{}'::uuid[], u.overlap,
            string_to_array(concat_ws(',', case when x.runnable then u.kind end,
                                      u.wake), ','), u.hold
        from unnest(p_request_id, p_idem, p_kind, p_work_key, v_ttl, p_run_after,
                    v_fast, v_plain, v_run, v_overlap, v_wake, v_hold)
            with ordinality as u (id, idem, kind, work_key, ttl, run_after, fast,
                plain, run, overlap, wake, hold, ord)
        cross join lateral (
            select case when u.plain
                then u.run_after is null or u.run_after <= v_now
                else u.run end as runnable) x
        where u.fast;
    end if;

    if cardinality(v_out) > 0 then
        return query
        select x.ord, x.outcome, x.code, x.decision, x.reason, x.problem,
            x.detail, x.job_id, x.status, x.kind, x.work_key, x.active_job_id,
            x.superseded_job_id, x.result_url, x.retry_after, x.done_for,
            x.replayed, x.runnable, x.ended_jobs,
            coalesce(x.policy, v_overlap[x.ord]),
            string_to_array(concat_ws(',', case when x.runnable then x.kind end,
                                      v_wake[x.ord]), ','), x.hold
        from unnest(v_out) x;
    end if;
end
$$;

-- submit_refusal(problem, kind, max_payload, key_template, source): code and
-- sentence of what is refused before anything is looked at.
create or replace function interlock.submit_refusal(
    p_problem text, p_kind text, p_max_payload int, p_template text,
    p_source text, out code int, out detail text, out retry_after int)
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case p_problem when 'source-paused' then 503
            when 'kind-unknown' then 404
            when 'body-too-large' then 413 else 400 end,
        case p_problem
            when 'source-paused' then
                format('requests from "%s" are paused: nothing was stored',
                       p_source)
            when 'kind-unknown' then format('no kind "%s"', p_kind)
            when 'fresh-not-allowed' then
                format('kind "%s" does not permit fresh', p_kind)
            when 'field-invalid' then case
                when p_kind in ('result-check', 'effect-check')
                then format('jobs of kind "%s" are look-ups: only interlock '
                    'makes them', p_kind)
                else '"priority" must be between -100 and 100' end
            when 'work-key-mismatch' then
                format('a work key of kind "%s" is of the form %s', p_kind,
                       p_template)
            else format('a payload of kind "%s" has at most %s bytes',
                        p_kind, p_max_payload) end,
        case p_problem when 'source-paused' then 60 end
$$;

revoke all on function interlock.submit_refusal(text, text, int, text, text)
    from public;
revoke all on function interlock.submit(int[], uuid[], text[], text[],
    bytea[], text[], text[], text[], bigint[], bytea[], text[], text[],
    text[], int[], timestamptz[], timestamptz[], boolean[], text[], text[],
    boolean) from public;
grant execute on function interlock.submit(int[], uuid[], text[], text[],
    bytea[], text[], text[], text[], bigint[], bytea[], text[], text[],
    text[], int[], timestamptz[], timestamptz[], boolean[], text[], text[],
    boolean) to interlock_service;
