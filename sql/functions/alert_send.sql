-- alert_send.sql: from an event to its receiver.  Each is sent until it is
-- taken, at least once, always the same under the same id; of one subject in
-- the order in which it happened.

-- alert_take(limit): who: the sending threads of every interlockd.
-- Takes events that are due, one an alert, of at most limit alerts.  Who takes
-- one has 30 s to answer; then somebody else takes it.
-- Locks: rows of alerts, skipping those that somebody holds.
-- Answers: what to send and to whom; at is the time to sign, Unix seconds of
-- the database's clock.
create or replace function interlock.alert_take(p_limit int)
returns table (tenant int, event_id uuid, try int, alert text, url text,
    body text, secret bytea, secret_file text, at bigint)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_now  timestamptz := clock_timestamp();
    a      interlock.alerts;
    d      interlock.alert_deliveries;
begin
    perform set_config('synchronous_commit', 'on', true);

    for a in
        select x.* from interlock.alerts x
        where x.due_at <= v_now
            and (x.busy_until is null or x.busy_until <= v_now)
        order by x.due_at limit p_limit
        for no key update skip locked
    loop
        select y.* into d from interlock.alert_deliveries y
        where y.tenant = a.tenant and y.alert = a.name
            and y.due_at <= v_now
            and not exists (
                select from interlock.alert_deliveries z
                where z.tenant = y.tenant and z.alert = y.alert
                    and z.condition = y.condition and z.subject = y.subject
                    and z.seq < y.seq)
        order by y.due_at, y.seq limit 1;

        if not found then
            perform interlock.alert_next(a.tenant, a.name);
            continue;
        end if;

        update interlock.alert_deliveries y
        set tries = y.tries + 1, started_at = v_now,
            due_at = v_now + interval '30 seconds'
        where y.tenant = d.tenant and y.event_id = d.event_id
        returning y.tries into try;

        update interlock.alerts x
        set busy_until = v_now + interval '30 seconds'
        where x.tenant = a.tenant and x.name = a.name;

        tenant := a.tenant;
        event_id := d.event_id;
        alert := a.name;
        url := a.url;
        secret_file := a.secret_file;
        at := floor(extract(epoch from v_now));
        select e.body into body from interlock.alert_events e
        where e.tenant = d.tenant and e.id = d.event_id;
        select s.secret into secret from interlock.alert_secrets s
        where s.tenant = a.tenant and s.alert = a.name;
        return next;
    end loop;
end
$$;

-- alert_next(tenant, alert): when something is to be sent to it next.  Caller
-- holds the alert.
create or replace function interlock.alert_next(p_tenant int, p_alert text)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    -- What stands behind an earlier event of its subject is as late as that.
    update interlock.alerts x
    set due_at = (
        select greatest(y.due_at, x.hold_until)
        from interlock.alert_deliveries y
        where y.tenant = p_tenant and y.alert = p_alert
            and not exists (
                select from interlock.alert_deliveries z
                where z.tenant = y.tenant and z.alert = y.alert
                    and z.condition = y.condition and z.subject = y.subject
                    and z.seq < y.seq)
        order by y.due_at limit 1)
    where x.tenant = p_tenant and x.name = p_alert;
end
$$;

-- alert_answer(…): who: interlockd, with what became of events that it took:
-- the status of the answer (null: there was none) and why that was no
-- success.
-- Locks: the alerts' rows, in order; then the deliveries'.
-- Answers one row each; outcome:
--   delivered  2xx
--   again      later, with a growing pause (2 s doubling to 5 min); where
--              nobody answers, or with 5xx, 408 or 429, nothing is sent to
--              that alert for a while (2 s doubling to 1 min); where the
--              receiver says that it is gone (410), for 5 min at once: a proxy
--              may say so, too, and whoever is to be told must not miss it
--   dropped    not taken for 24 h: it stays in alert_events, and says so
--   gone       somebody else's try by now, or nobody's
create or replace function interlock.alert_answer(
    p_tenant int[], p_event uuid[], p_try int[], p_status int[],
    p_error text[])
returns table (ord int, outcome text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    perform set_config('synchronous_commit', 'on', true);

    perform from (
        select distinct d.tenant, d.alert
        from unnest(p_tenant, p_event) u (tenant, id)
        cross join lateral (
            select x.tenant, x.alert from interlock.alert_deliveries x
            where x.tenant = u.tenant and x.event_id = u.id
            limit 1) d
        order by d.tenant, d.alert) k
    cross join lateral (
        select from interlock.alerts a
        where a.tenant = k.tenant and a.name = k.alert
        for no key update) a;

    for i in 1 .. cardinality(p_tenant) loop
        ord := i;
        outcome := interlock.alert_answered(p_tenant[i], p_event[i],
            p_try[i], p_status[i], left(p_error[i], 500));
        return next;
    end loop;
end
$$;

-- alert_answered(…): one of them.  Caller holds the alert.
create or replace function interlock.alert_answered(
    p_tenant int, p_event uuid, p_try int, p_status int, p_error text)
returns text
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_now      timestamptz := clock_timestamp();
    v_outcome  text;
    v_down     boolean := coalesce(p_status >= 500
                                   or p_status in (408, 410, 429), true);
    v_pause    float8;
    d          interlock.alert_deliveries;
begin
    select * into d from interlock.alert_deliveries x
    where x.tenant = p_tenant and x.event_id = p_event for update;

    if not found or d.tries <> p_try or d.started_at is null then
        return 'gone';
    end if;

    v_outcome := case
        when p_status between 200 and 299 then 'delivered'
        when d.created_at <= v_now - interval '24 hours' then 'dropped'
        else 'again' end;
    v_pause := (0.75 + random() / 2) * case when p_status = 410 then 300
        else least(300, 2 ^ least(d.tries, 30)) end;

    if v_outcome = 'again' then
        update interlock.alert_deliveries x
        set started_at = null,
            due_at = v_now + make_interval(secs => v_pause)
        where x.tenant = p_tenant and x.event_id = p_event;
    else
        delete from interlock.alert_deliveries x
        where x.tenant = p_tenant and x.event_id = p_event;
    end if;

    update interlock.alert_events e
    set tries = d.tries, last_status = p_status,
        last_error = case when v_outcome <> 'delivered' then p_error end,
        delivered_at = case when v_outcome = 'delivered' then v_now end,
        dropped_at = case when v_outcome = 'dropped' then v_now end
    where e.tenant = p_tenant and e.id = p_event;

    update interlock.alerts a
    set busy_until = null,
        fails = case when v_outcome = 'delivered' then 0
                else a.fails + 1 end,
        hold_until = case when v_outcome <> 'delivered' and v_down
            then v_now + make_interval(secs => case when p_status = 410
                then v_pause else (0.75 + random() / 2)
                    * least(60, 2 ^ least(a.fails + 1, 30)) end) end,
        last_sent_at = case when v_outcome = 'delivered' then v_now
                       else a.last_sent_at end,
        last_error = case when v_outcome <> 'delivered' then p_error end
    where a.tenant = p_tenant and a.name = d.alert;

    perform interlock.alert_next(p_tenant, d.alert);

    return v_outcome;
end
$$;

revoke all on function interlock.alert_take(int) from public;
revoke all on function interlock.alert_next(int, text) from public;
revoke all on function interlock.alert_answer(int[], uuid[], int[], int[],
    text[]) from public;
revoke all on function interlock.alert_answered(int, uuid, int, int, text)
    from public;
grant execute on function interlock.alert_take(int) to interlock_service;
grant execute on function interlock.alert_answer(int[], uuid[], int[],
    int[], text[]) to interlock_service;
