-- effect_chain.sql: sealing the history of effects, so that a row that is
-- changed, removed or inserted afterwards is found.
--
-- The rows of a tenant, in the order of their transactions, are links of one
-- chain: hash = BLAKE2b-256 (previous hash, n as 8 bytes big endian, the row's
-- canonical bytes), the first previous hash 32 zero bytes.  PostgreSQL has no
-- BLAKE2b, and a chain within the deciding transactions would make a tenant's
-- effects take turns; so interlockd seals afterwards, within seconds.

-- effect_canonical(h): what a history row says, as bytes: each field as its
-- length, ":" and text, or "-" for none, joined by ",".  Never changed for
-- rows that are there: what new columns say goes behind, if not null.
create or replace function interlock.effect_canonical(
    h interlock.effects_history)
returns bytea
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select convert_to(string_agg(coalesce(octet_length(f.v) || ':' || f.v,
        '-'), ',' order by f.i), 'UTF8')
    from unnest(array[h.tenant::text, h.id::text,
            (extract(epoch from h.at) * 1000000)::bigint::text,
            h.effect_id::text, h.seq::text, h.moved::text, h.what,
            h.from_state, h.to_state, h.round::text, h.send_id::text,
            h.attempt_id::text, h.job_id::text, h.fence::text, h.said,
            h.provider_ref, h.detail, h.response_status::text,
            encode(h.response_hash, 'hex'), h.requested_by, h.reason,
            h.token_id::text, h.token_name, h.contradiction,
            h.xact::text])
        with ordinality f (v, i)
$$;

-- effects_unsealed(limit): who: the sealer of every interlockd.
-- The next rows of each tenant's chain, at most limit in all, only those
-- before which no other can come any more: their transactions are older than
-- all that run.  Locks: none.
-- Answers: tenant; n, the row's number in the chain; history_id; prev, the
-- hash before it (only with the first of a tenant: the others' is made by the
-- one who asks); canonical, its bytes.
create or replace function interlock.effects_unsealed(p_limit int)
returns table (tenant int, n bigint, history_id bigint, prev bytea,
    canonical bytea)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_oldest  xid8 := pg_snapshot_xmin(pg_current_snapshot());
begin
    return query
    select t.id, c.n + h.i, h.id, case when h.i = 1 then c.hash end,
        h.canonical
    from interlock.tenants t
    cross join lateral interlock.chain_end(t.id) c
    cross join lateral (
        select x.id, interlock.effect_canonical(x) as canonical,
            row_number() over (order by x.xact, x.id) as i
        from (select y.* from interlock.effects_history y
              where y.tenant = t.id and y.xact >= c.xact
                  and (y.xact, y.id) > (c.xact, c.history_id)
                  and y.xact < v_oldest
              order by y.xact, y.id limit p_limit) x) h
    order by t.id, h.i
    limit p_limit;
end
$$;

-- chain_end(tenant): where the tenant's chain ends; before its first link a
-- row of zeros.  Locks: none.
create or replace function interlock.chain_end(p_tenant int)
returns interlock.effects_chain_ends
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    c  interlock.effects_chain_ends;
begin
    select * into c from interlock.effects_chain_ends x
    where x.tenant = p_tenant;

    if not found then
        c.tenant := p_tenant;
        c.n := 0;
        c.hash := decode(repeat('00', 32), 'hex');
        c.xact := '0';
        c.history_id := 0;
    end if;

    return c;
end
$$;

-- effects_seal(…): who: the sealer, with the hashes of what effects_unsealed
-- gave it.
-- Locks: the ends of these tenants' chains, by tenant (FOR UPDATE, made first
-- if missing).
-- Answers one row a link: ok, or not: the chain ends elsewhere by now
-- (another sealer was first), or the row is not the one to come.
create or replace function interlock.effects_seal(
    p_tenant int[], p_n bigint[], p_history bigint[], p_prev bytea[],
    p_hash bytea[])
returns table (ord int, ok boolean)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    c  interlock.effects_chain_ends;
    h  interlock.effects_history;
    r  record;
begin
    perform set_config('synchronous_commit', 'on', true);

    insert into interlock.effects_chain_ends (tenant)
    select distinct u.tenant from unnest(p_tenant) u (tenant)
    where not exists (select from interlock.effects_chain_ends x
                      where x.tenant = u.tenant)
    order by 1
    on conflict do nothing;

    perform from (
        select distinct u.tenant from unnest(p_tenant) u (tenant)
        order by 1) k
    cross join lateral (
        select from interlock.effects_chain_ends x
        where x.tenant = k.tenant
        for update) l;

    for r in
        select u.* from unnest(p_tenant, p_n, p_history, p_prev, p_hash)
            with ordinality as u (tenant, n, history, prev, hash, ord)
        order by u.ord
    loop
        c := interlock.chain_end(r.tenant);
        select * into h from interlock.effects_history x
        where x.tenant = r.tenant and x.id = r.history;

        ord := r.ord;
        ok := coalesce(c.n + 1 = r.n and c.hash = r.prev
            and octet_length(r.hash) = 32
            and (h.xact, h.id) > (c.xact, c.history_id), false);

        if ok then
            insert into interlock.effects_chain (tenant, n, history_id, prev,
                hash)
            values (r.tenant, r.n, r.history, r.prev, r.hash);

            update interlock.effects_chain_ends x
            set n = r.n, hash = r.hash, xact = h.xact, history_id = h.id
            where x.tenant = r.tenant;

            perform interlock.effect_tally(h);
        end if;

        return next;
    end loop;
end
$$;

-- effect_tally(h): counts a change of state; the caller holds the end of the
-- tenant's chain.
create or replace function interlock.effect_tally(
    h interlock.effects_history)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    if not h.moved or h.from_state = h.to_state then
        return;
    end if;

    insert into interlock.effect_tallies as t (tenant, effect_kind, state, n)
    select h.tenant, e.kind, v.state, v.n
    from interlock.effects e,
        (values (h.from_state, -1), (h.to_state, 1)) v (state, n)
    where e.tenant = h.tenant and e.id = h.effect_id
        and v.state is not null
    on conflict (tenant, effect_kind, state) do update
    set n = t.n + excluded.n;
end
$$;

-- effects_chain(tenant, after, limit): who: interlock audit verify.
-- The links of a tenant's chain after number after, at most limit.
-- Locks: none.  canonical is null if the row is not there any more.
create or replace function interlock.effects_chain(
    p_tenant int, p_after bigint, p_limit int)
returns table (n bigint, history_id bigint, prev bytea, hash bytea,
    canonical bytea, sealed_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
    return query
    select c.n, c.history_id, c.prev, c.hash,
        case when h.id is not null then interlock.effect_canonical(h) end,
        c.sealed_at
    from (select x.* from interlock.effects_chain x
          where x.tenant = p_tenant and x.n > p_after
          order by x.n limit p_limit) c
    left join lateral (
        select y.* from interlock.effects_history y
        where y.tenant = p_tenant and y.id = c.history_id
        limit 1) h on true
    order by c.n;
end
$$;

-- effects_chain_rest(tenant, after, limit): who: interlock audit verify.
-- Looks at the history rows with ids above after, at most limit of them, for
-- those that are no link of the chain.  Locks: none.
-- Answers one row: last, the highest id that it looked at (null: none left);
-- unsealed, how many of them are to be sealed yet; inserted, the first one
-- that has no place in the chain although the chain has gone past it, or that
-- is of a transaction which has not been yet; links and hash, the chain's
-- present end.
create or replace function interlock.effects_chain_rest(
    p_tenant int, p_after bigint, p_limit int)
returns table (last bigint, unsealed bigint, inserted bigint, links bigint,
    hash bytea)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    c  interlock.effects_chain_ends := interlock.chain_end(p_tenant);
begin
    return query
    select max(x.id),
        count(*) filter (where x.loose and not x.odd),
        min(x.id) filter (where x.loose and x.odd),
        c.n, c.hash
    from (select h.id, not exists (
              select from interlock.effects_chain l
              where l.tenant = p_tenant and l.history_id = h.id) as loose,
              (h.xact, h.id) <= (c.xact, c.history_id)
              or h.xact >= pg_snapshot_xmax(pg_current_snapshot())
                  and h.xact is distinct from
                      pg_current_xact_id_if_assigned() as odd
          from (select y.* from interlock.effects_history y
                where y.tenant = p_tenant and y.id > p_after
                order by y.id limit p_limit) h) x;
end
$$;

-- effect_counts(): how many effects there are by tenant, kind and state: what
-- the chain has counted, and what it has not come to yet.  Locks: none.
create or replace function interlock.effect_counts()
returns table (tenant int, effect_kind text, state text, n bigint)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    select x.tenant, x.effect_kind, x.state, sum(x.n)::bigint
    from (select t.tenant, t.effect_kind, t.state, t.n
          from interlock.effect_tallies t
          union all
          select t.id, e.kind, v.state, v.n
          from interlock.tenants t
          cross join lateral interlock.chain_end(t.id) c
          cross join lateral (
              select y.* from interlock.effects_history y
              where y.tenant = t.id and y.xact >= c.xact
                  and (y.xact, y.id) > (c.xact, c.history_id)
              offset 0) h
          cross join lateral (
              select z.kind from interlock.effects z
              where z.tenant = t.id and z.id = h.effect_id
              limit 1) e
          cross join lateral (values (h.from_state, -1),
              (h.to_state, 1)) v (state, n)
          where h.moved and v.state is not null) x
    group by 1, 2, 3;
end
$$;

-- effect_stats(): the gauges of stats() about effects.
create or replace function interlock.effect_stats()
returns table (name text, tenant text, labels text, value double precision)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    select 'effects', t.name, json_build_object('effect_kind',
        x.effect_kind, 'state', x.state)::text, x.n::float8
    from interlock.effect_counts() x
    join interlock.tenants t on t.id = x.tenant;

    return query
    select 'effect_oldest_unknown_age_seconds', t.name,
        json_build_object('effect_kind', k.name)::text,
        coalesce(greatest(0, extract(epoch from clock_timestamp()
            - x.since)), 0)::float8
    from interlock.effect_kinds k
    join interlock.tenants t on t.id = k.tenant
    left join (
        select e.tenant, e.kind, min(e.unknown_since) as since
        from interlock.effects e
        where e.state in ('unknown', 'needs_human')
        group by 1, 2) x on x.tenant = k.tenant and x.kind = k.name;

    return query
    select 'duplicate_side_effect_total', t.name,
        json_build_object('effect_kind', k.name)::text,
        coalesce(x.n, 0)::float8
    from interlock.effect_kinds k
    join interlock.tenants t on t.id = k.tenant
    left join (
        select h.tenant, e.kind, count(*) as n
        from interlock.effects_history h
        join interlock.effects e on e.tenant = h.tenant
            and e.id = h.effect_id
        where h.contradiction is not null
        group by 1, 2) x on x.tenant = k.tenant and x.kind = k.name;
end
$$;

revoke all on function interlock.effect_canonical(
    interlock.effects_history) from public;
revoke all on function interlock.effects_unsealed(int) from public;
revoke all on function interlock.chain_end(int) from public;
revoke all on function interlock.effects_seal(int[], bigint[], bigint[],
    bytea[], bytea[]) from public;
revoke all on function interlock.effect_tally(interlock.effects_history)
    from public;
revoke all on function interlock.effects_chain(int, bigint, int)
    from public;
revoke all on function interlock.effects_chain_rest(int, bigint, int)
    from public;
revoke all on function interlock.effect_counts() from public;
revoke all on function interlock.effect_stats() from public;
grant execute on function interlock.effects_unsealed(int)
    to interlock_service;
grant execute on function interlock.effects_seal(int[], bigint[], bigint[],
    bytea[], bytea[]) to interlock_service;
grant execute on function interlock.effects_chain(int, bigint, int)
    to interlock_service;
grant execute on function interlock.effects_chain_rest(int, bigint, int)
    to interlock_service;
