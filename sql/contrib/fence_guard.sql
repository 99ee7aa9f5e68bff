-- fence_guard.sql: makes tables of your own, in any PostgreSQL (10 or later),
-- refuse what a stale owner writes.  It needs nothing else of interlock; run
-- it once as the owner of your tables.
--
-- A worker that was paused may wake up long after its lease has gone to
-- somebody else, and write.  It cannot know; but every lease has a fence (in
-- the claim's answer, and in the owner token's claims, which anybody can
-- verify with the public keys of GET /v1/keys), and each owner of a work key
-- has a higher one than those before it.  So let each write bring its fence,
-- and refuse any that is lower than one seen already.
--
-- A resource is what the owners of one work key write, named as you like: as
-- a rule the work key itself.  Fences of two work keys have nothing to do with
-- each other: never let them guard one resource.
--
-- Three ways, all within the transaction that writes:
--
--   1. A column names the resource, and the transaction says its fence:
--        create trigger guard before insert or update or delete on report
--            for each row execute function
--            fence_guard.refuse_stale('work_key');
--        begin;
--        select set_config('fence_guard.fence', '17', true);
--        …
--
--   2. Rows that are only inserted may bring the fence in a column:
--        create trigger guard before insert or update or delete on entry
--            for each row execute function
--            fence_guard.refuse_stale('work_key', 'fence');
--      (what updates or deletes says its fence as above: a row's own fence is
--      its last writer's, not that of whoever changes it now)
--
--   3. No trigger, the writer asks by itself before it writes:
--        begin;
--        select fence_guard.pass('report:2026-07-24', 17);
--        …
--
-- A new owner does well to call fence_guard.pass() as soon as it has its lease:
-- from then on its predecessor is refused, whether it has written or not.
--
-- How it works: the resource's row in fence_guard.fences is locked until the
-- transaction ends.  Who comes with a lower fence is refused (SQLSTATE 55F01);
-- who comes while a predecessor's transaction is open waits for its end, so
-- what that one has written is there before, never after.  (A predecessor
-- that is paused with its transaction open holds up its successor: set
-- idle_in_transaction_session_timeout.)
--
-- The same fence may write as often as it likes.  What triggers do not see is
-- not guarded: TRUNCATE, and who may disable triggers or write fences.

create schema if not exists fence_guard;

create table if not exists fence_guard.fences (
    resource  text primary key,
    fence     bigint not null check (fence > 0),
    raised_at timestamptz not null default clock_timestamp()
);

-- pass(resource, fence): whoever owns the resource by this fence may write,
-- until its transaction ends; everybody with a lower one is refused from now
-- on.  Raises 55F01 if a higher one was here.
create or replace function fence_guard.pass(p_resource text, p_fence bigint)
returns void
language plpgsql security definer
set search_path = pg_catalog, fence_guard, pg_temp
as $$
declare
    v_fence  bigint;
begin
    if p_resource is null or p_fence is null then
        raise exception 'no % to pass the guard with', case
            when p_resource is null then 'resource' else 'fence' end
            using errcode = '55F01',
                hint = 'say it in the row, or by set_config('
                    '''fence_guard.fence'', …, true)';
    end if;

    -- Locks the row, then judges it as it is by then.
    insert into fence_guard.fences as f (resource, fence)
    values (p_resource, p_fence)
    on conflict (resource) do update
    set fence = excluded.fence,
        raised_at = case when f.fence < excluded.fence
                    then clock_timestamp() else f.raised_at end
    where f.fence <= excluded.fence;

    if not found then
        select f.fence into v_fence from fence_guard.fences f
        where f.resource = p_resource;
        raise exception 'stale fence % for "%": % was here', p_fence,
            p_resource, v_fence
            using errcode = '55F01';
    end if;
end
$$;

-- refuse_stale(resource column[, fence column]): the trigger; for each row,
-- before insert, update or delete.
create or replace function fence_guard.refuse_stale() returns trigger
language plpgsql
as $$
declare
    v_new    jsonb;
    v_old    jsonb;
    v_fence  text := nullif(current_setting('fence_guard.fence', true), '');
begin
    if tg_op <> 'INSERT' then
        v_old := to_jsonb(old);
    end if;
    if tg_op <> 'DELETE' then
        v_new := to_jsonb(new);
    end if;
    if tg_op = 'INSERT' and tg_nargs > 1 then
        v_fence := v_new ->> tg_argv[1];
    end if;

    -- A row that changes hands passes both guards, in one order for all.
    if v_old ->> tg_argv[0] < v_new ->> tg_argv[0] then
        perform fence_guard.pass(v_old ->> tg_argv[0], v_fence::bigint);
        perform fence_guard.pass(v_new ->> tg_argv[0], v_fence::bigint);
    else
        if v_new is not null then
            perform fence_guard.pass(v_new ->> tg_argv[0], v_fence::bigint);
        end if;
        if v_old ->> tg_argv[0] is distinct from v_new ->> tg_argv[0]
            and v_old is not null
        then
            perform fence_guard.pass(v_old ->> tg_argv[0], v_fence::bigint);
        end if;
    end if;

    return case tg_op when 'DELETE' then old else new end;
end
$$;

-- Who writes guarded tables needs usage of the schema and execute of pass;
-- nobody but the owner touches the fences.
revoke all on schema fence_guard from public;
revoke all on table fence_guard.fences from public;
revoke all on function fence_guard.pass(text, bigint) from public;
revoke all on function fence_guard.refuse_stale() from public;
