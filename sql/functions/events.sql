-- events.sql: what has changed since somebody looked last.
--
-- A cursor is a snapshot: "EPOCH.SNAPSHOT". What has changed since is what
-- was changed by transactions that it does not see (jobs.changed; of a
-- running job, leases.told): neither a clock nor the order of commits counts,
-- and a transaction that was open then is found by its number, however long
-- it takes.
-- Between two snapshots it says how far what lies between was told already:
-- "EPOCH.SNAPSHOT.SNAPSHOT.XID.JOB".
-- A job that changed several times shows its newest state once.

-- events_snapshot(snapshot): the same, made a shorter one if more than 50
-- transactions were under way: then it sees less, and something may be told
-- twice.
create or replace function interlock.events_snapshot(s pg_snapshot)
returns pg_snapshot
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case when count(*) <= 50 then s
        else format('%s:%s:%s', pg_snapshot_xmin(s), max(x.xid) filter (
                where x.n = 51),
            string_agg(x.xid::text, ',' order by x.n) filter (
                where x.n <= 50))::pg_snapshot end
    from pg_snapshot_xip(s) with ordinality x (xid, n)
    where x.n <= 51
$$;

-- events_cursor(epoch, text, …): what a cursor says; f0 is null if it is not
-- one of this database as it is now.
create or replace function interlock.events_cursor(
    p_epoch text, p_cursor text, p_now pg_snapshot,
    out f0 pg_snapshot, out f1 pg_snapshot, out x xid8, out id uuid)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_part  text[];
begin
    v_part := regexp_match(p_cursor, '^([0-9a-f]{16}-[0-9A-F]{0,8})'
        || '[.](\d{1,20}:\d{1,20}:[\d,]*)'
        || '(?:[.](\d{1,20}:\d{1,20}:[\d,]*)[.](\d{1,20})'
        || '[.]([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}))?$');

    if v_part is null or v_part[1] <> p_epoch or length(p_cursor) > 3000 then
        return;
    end if;

    begin
        f0 := v_part[2]::pg_snapshot;
        f1 := v_part[3]::pg_snapshot;
        x := v_part[4]::xid8;
        id := v_part[5]::uuid;
    exception when others then
        f0 := null;
        return;
    end;

    -- Of a database whose transactions were counted further than here.
    if pg_snapshot_xmax(f0) > pg_snapshot_xmax(p_now)
        or pg_snapshot_xmax(f1) > pg_snapshot_xmax(p_now)
    then
        f0 := null;
    end if;
end
$$;

-- events_since(…): who: the thread of an interlockd that writes event
-- streams.  Locks: none.
-- Jobs of the tenant that have changed since the cursor, oldest transaction
-- first, at most limit: all, or those of the kinds, work keys and jobs named.
-- Null as cursor: none, from now on.
-- Answers one row a job (what is 'job', cursor: from where it goes on behind
-- that row), and one more:
--   at     that was all; cursor: now
--   more   there may be more, to be asked for from the cursor at once
--   reset  the cursor is none of this database, or more than backlog (if not
--          null) have changed since; cursor: now
-- doc has no line breaks.
create or replace function interlock.events_since(
    p_tenant int, p_cursor text, p_limit int, p_backlog int, p_all boolean,
    p_kinds text[], p_keys text[], p_jobs uuid[])
returns table (what text, cursor text, job_id uuid, kind text,
    work_key text, doc text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_now    pg_snapshot := pg_current_snapshot();
    v_next   pg_snapshot := interlock.events_snapshot(v_now);
    v_epoch  text;
    v_to     pg_snapshot;
    v_n      int := 0;
    c        record;
    r        record;
begin
    select e.epoch into v_epoch from interlock.ready() e;

    what := 'at';
    cursor := v_epoch || '.' || v_next;

    if p_cursor is null then
        return next;
        return;
    end if;

    select * into c
    from interlock.events_cursor(v_epoch, p_cursor, v_now);

    if c.f0 is null or p_backlog < (
        select count(*) from (
            select from interlock.events_changed(p_tenant, c.f0, null, null,
                null, v_now, p_backlog + 1, true, '{}', '{}', '{}')) y)
    then
        what := 'reset';
        return next;
        return;
    end if;

    v_to := coalesce(c.f1, v_next);

    for r in
        select y.changed, j.id, j.kind, j.work_key,
            translate(interlock.job_doc(j, l.progress, l.step), e'\n\r',
                      '  ') as doc
        from interlock.events_changed(p_tenant, c.f0, c.f1, c.x, c.id, v_now,
            p_limit, p_all, p_kinds, p_keys, p_jobs) y
        cross join lateral (
            select z.* from interlock.jobs z
            where z.tenant = p_tenant and z.id = y.job
            limit 1) j
        left join lateral (
            select z.progress, z.step from interlock.leases z
            where z.tenant = p_tenant and z.job_id = y.job
            limit 1) l on true
        order by y.changed, y.job
    loop
        v_n := v_n + 1;
        what := 'job';
        cursor := concat_ws('.', v_epoch, c.f0, v_to, r.changed, r.id);
        job_id := r.id;
        kind := r.kind;
        work_key := r.work_key;
        doc := r.doc;
        return next;
    end loop;

    job_id := null;
    kind := null;
    work_key := null;
    doc := null;

    if v_n >= p_limit then
        what := 'more';
    elsif c.f1 is not null then
        what := 'more';
        cursor := v_epoch || '.' || c.f1;
    else
        what := 'at';
        cursor := v_epoch || '.' || v_next;
    end if;

    return next;
end
$$;

-- events_changed(…): jobs that f0 does not see as they are now, in the order
-- of (changed, job), behind (x, id); with f1 not null, those that it sees.
create or replace function interlock.events_changed(
    p_tenant int, p_f0 pg_snapshot, p_f1 pg_snapshot, p_x xid8, p_id uuid,
    p_now pg_snapshot, p_limit int, p_all boolean, p_kinds text[],
    p_keys text[], p_jobs uuid[])
returns table (changed xid8, job uuid)
language sql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
    select y.changed, y.job from (
        -- Transactions that began later ...
        (select j.changed, j.id as job from interlock.jobs j
         where j.tenant = p_tenant and j.changed >= pg_snapshot_xmax(p_f0)
             and j.changed < pg_snapshot_xmax(p_now)
             and j.status <> 'running'
             and (p_f1 is null or pg_visible_in_snapshot(j.changed, p_f1))
             and (p_x is null or (j.changed, j.id) > (p_x, p_id))
             and (p_all or j.kind = any (p_kinds)
                  or j.work_key = any (p_keys) or j.id = any (p_jobs))
         order by j.changed, j.id
         limit p_limit)
        union all
        -- ... and those that were under way.
        (select j.changed, j.id
         from (select x.xid
               from pg_snapshot_xip(p_f0) x (xid)) u
         cross join lateral (
             select z.changed, z.id from interlock.jobs z
             where z.tenant = p_tenant and z.changed = u.xid
                 and z.status <> 'running'
                 and (p_f1 is null
                      or pg_visible_in_snapshot(z.changed, p_f1))
                 and (p_x is null or (z.changed, z.id) > (p_x, p_id))
                 and (p_all or z.kind = any (p_kinds)
                      or z.work_key = any (p_keys) or z.id = any (p_jobs))
             order by z.changed, z.id
             limit p_limit) j)
        union all
        -- Jobs that run.
        (select l.told, l.job_id from interlock.leases l
         where l.tenant = p_tenant and l.told >= pg_snapshot_xmin(p_f0)
             and not pg_visible_in_snapshot(l.told, p_f0)
             and (p_f1 is null or pg_visible_in_snapshot(l.told, p_f1))
             and (p_x is null or (l.told, l.job_id) > (p_x, p_id))
             and (p_all or l.kind = any (p_kinds)
                  or l.work_key = any (p_keys) or l.job_id = any (p_jobs))
         order by l.told, l.job_id
         limit p_limit)) y
    order by 1, 2
    limit p_limit
$$;

revoke all on function interlock.events_snapshot(pg_snapshot) from public;
revoke all on function interlock.events_cursor(text, text, pg_snapshot)
    from public;
revoke all on function interlock.events_changed(int, pg_snapshot,
    pg_snapshot, xid8, uuid, pg_snapshot, int, boolean, text[], text[],
    uuid[]) from public;
revoke all on function interlock.events_since(int, text, int, int, boolean,
    text[], text[], uuid[]) from public;
grant execute on function interlock.events_since(int, text, int, int,
    boolean, text[], text[], uuid[]) to interlock_service;

-- events_alive(tenants, tokens, sessions, idle_ms): who: as above, twice a
-- minute.  Locks: none.  To look on is no use of a session.
-- Answers the ord of each whose token is still good, and his session, if he
-- came by one (not null).
create or replace function interlock.events_alive(
    p_tenant int[], p_token bigint[], p_session bytea[], p_idle_ms bigint)
returns table (ord int)
language sql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
    select u.ord::int
    from unnest(p_tenant, p_token, p_session) with ordinality
        u (tenant, token, session, ord)
    cross join lateral (
        select from interlock.api_tokens t
        where t.tenant = u.tenant and t.id = u.token
            and t.revoked_at is null
        limit 1) a
    where u.session is null or exists (
        select from interlock.sessions s
        where s.hash = u.session and s.ends_at > clock_timestamp()
            and s.seen_at + p_idle_ms * interval '1 millisecond'
                > clock_timestamp())
$$;

revoke all on function interlock.events_alive(int[], bigint[], bytea[],
    bigint) from public;
grant execute on function interlock.events_alive(int[], bigint[], bytea[],
    bigint) to interlock_service;
