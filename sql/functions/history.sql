-- history.sql: history is kept in parts, a week each (022_history.sql,
-- 023_history.sql).

-- history_ahead(): makes the parts of this week and the four to come, so that
-- what ends finds its own.  Helper of prune, which comes by every minute;
-- nearly always there is nothing to do.
-- Locks: those of history_part, and for them it waits a moment only: whoever
-- reads old history for long is let be, and the next one tries again.
create or replace function interlock.history_ahead() returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set lock_timeout = '50ms'
set timezone = 'UTC'
as $$
declare
    v_week  timestamptz := date_trunc('week', clock_timestamp(), 'UTC');
    v_at    timestamptz;
    t       record;
begin
    for n in 0 .. 4 loop
        v_at := v_week + make_interval(days => 7 * n);
        for t in select * from interlock.history_tables() loop
            perform interlock.history_part(t.name, t.key, v_at);
        end loop;
    end loop;
exception
    when lock_not_available or deadlock_detected then
        null;
end
$$;

-- history_tables(): the tables of history, and what they go by.
create or replace function interlock.history_tables(
    out name text, out key text)
returns setof record
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    values ('attempts', 'ended_at'), ('jobs_ended', 'id'),
        ('payloads', 'job_id'), ('requests', 'id')
$$;

-- history_weeks(): the parts there are, oldest first; those of rows that lie
-- in no week are none.
create or replace function interlock.history_weeks(
    out week timestamptz, out parent text, out name text)
returns setof record
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select to_date(right(c.relname, 7), 'IYYY"w"IW')::timestamp
            at time zone 'UTC', t.name, c.relname::text
    from interlock.history_tables() t
    join pg_inherits i
        on i.inhparent = ('interlock.' || t.name)::regclass
    join pg_class c on c.oid = i.inhrelid
    where c.relname ~ '_[0-9]{4}w[0-9]{2}$'
    order by 1, 2
$$;

-- history_drop(): drops the weeks that are older than history is kept
-- (retain), oldest first, and none while something that is not over needs it
-- (history_held): then it is tried again an hour later.  Helper of prune.
-- Locks: its row in history; then the parents, in order, and what goes with
-- them, ACCESS EXCLUSIVE.  It waits 50 ms for each, for whoever comes next
-- would have to wait too; if somebody reads for longer, it gives back what it
-- has, and is tried again a minute later.
-- Answers how many weeks went.
create or replace function interlock.history_drop() returns int
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set lock_timeout = '50ms'
set timezone = 'UTC'
as $$
declare
    v_now   timestamptz := clock_timestamp();
    v_keep  timestamptz := v_now - interlock.retain('history');
    v_why   text;
    v_n     int := 0;
    w       record;
begin
    perform from interlock.history h
    where h.one and h.next_at <= v_now
    for no key update skip locked;
    if not found then
        return 0;
    end if;

    for w in
        select x.week, array_agg(x.name order by x.parent) as names,
            array_agg(x.parent order by x.parent) as parents
        from interlock.history_weeks() x
        where x.week + interval '7 days' <= v_keep
        group by x.week
        order by x.week
    loop
        v_why := interlock.history_held(w.week, w.week + interval '7 days');
        if v_why is not null then
            update interlock.history h
            set why = v_why, next_at = v_now + interval '1 hour'
            where h.one;
            return v_n;
        end if;

        begin
            for i in 1 .. cardinality(w.names) loop
                execute format('lock table only interlock.%I '
                    'in access exclusive mode', w.parents[i]);
            end loop;

            -- Who takes back a failed job has changed that row, or finds none.
            v_why := interlock.history_lives(interlock.id_at(w.week),
                interlock.id_at(w.week + interval '7 days'));
            if v_why is not null then
                raise lock_not_available;
            end if;

            -- Failed jobs that nobody ever looked after.
            perform interlock.inbox_over(b.tenant, b.id)
            from interlock.inbox b
            where case when starts_with(b.id, 'job:')
                then substr(b.id, 5)::uuid >= interlock.id_at(w.week)
                    and substr(b.id, 5)::uuid
                        < interlock.id_at(w.week + interval '7 days') end;

            for i in 1 .. cardinality(w.names) loop
                execute format('drop table interlock.%I', w.names[i]);
            end loop;
        exception when lock_not_available or deadlock_detected then
            update interlock.history h
            set why = coalesce(v_why, 'somebody reads'),
                next_at = v_now + interval '1 minute'
            where h.one;
            return v_n;
        end;

        update interlock.history h
        set gone_to = w.week + interval '7 days', why = null,
            gone_id = interlock.id_at(w.week + interval '7 days')
        where h.one;
        v_n := v_n + 1;
        exit when v_n = 8;
    end loop;

    update interlock.history h set why = null
    where h.one and h.why is not null;

    return v_n;
end
$$;

-- history_held(from, to): what there is that is not over and needs what
-- arrived in that time; null: nothing.  Locks: none.
create or replace function interlock.history_held(
    p_from timestamptz, p_to timestamptz)
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_low   uuid := interlock.id_at(p_from);
    v_high  uuid := interlock.id_at(p_to);
    v_what  text;
begin
    v_what := interlock.history_lives(v_low, v_high);
    if v_what is not null then
        return v_what;
    end if;

    select format('effect %s is not settled', e.id) into v_what
    from interlock.effects e
    where e.state in ('intended', 'unknown', 'needs_human')
        and e.job_id >= v_low and e.job_id < v_high
    limit 1;
    if found then
        return v_what;
    end if;

    select format('slot %s of schedule %s is looked at', x.slot_at,
                  x.schedule) into v_what
    from interlock.slots x
    where x.check_at is not null and x.job_id >= v_low and x.job_id < v_high
    limit 1;
    if found then
        return v_what;
    end if;

    -- Nobody looks at all keys, unless some live for as long as history.
    perform from interlock.kind_versions v
    where make_interval(secs => v.idempotency_ttl)
        >= clock_timestamp() - p_to - interlock.id_slack()
    limit 1;
    if not found then
        return null;
    end if;

    select format('the idempotency key of request %s lives', i.request_id)
    into v_what
    from interlock.idempotency i
    where i.expires_at > clock_timestamp() and i.request_id >= v_low
        and i.request_id < v_high
    limit 1;
    return v_what;
end
$$;

-- history_lives(low, high): a job that has not ended, of those with such ids or
-- that repeat one of them; null: none.  Locks: none.
create or replace function interlock.history_lives(p_low uuid, p_high uuid)
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_what  text;
begin
    select format('job %s has not ended', x.id) into v_what
    from interlock.tenants t
    cross join lateral (
        select j.id from interlock.jobs_live j
        where j.tenant = t.id and j.id >= p_low and j.id < p_high
        limit 1) x
    limit 1;
    if found then
        return v_what;
    end if;

    select format('job %s repeats job %s', x.id, x.rerun_of) into v_what
    from interlock.tenants t
    cross join lateral (
        select j.id, j.rerun_of from interlock.jobs_live j
        where j.tenant = t.id and j.rerun_of >= p_low and j.rerun_of < p_high
        limit 1) x
    limit 1;
    return v_what;
end
$$;

revoke all on function interlock.history_ahead() from public;
revoke all on function interlock.history_tables() from public;
revoke all on function interlock.history_weeks() from public;
revoke all on function interlock.history_drop() from public;
revoke all on function interlock.history_lives(uuid, uuid) from public;
revoke all on function interlock.history_held(timestamptz, timestamptz)
    from public;
