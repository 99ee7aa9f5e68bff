-- cron_next.sql: from a cron expression and a time zone to instants; helpers
-- of all that deals with schedules.  Locks: none.
--
-- An expression names times on the wall clock.  Where the clock is put
-- forward, a time in the gap means, by the rule named gap, the first instant
-- after it (run_after) or none (skip); where it is put back, a time that
-- comes twice means, by the rule named fold, its first, its second or both.
-- Two wall times may so name one instant; it counts once.  When clocks move
-- is known from the server's zone data, found by comparing offsets.

-- zone_offset(at, zone): what the zone's wall clock is ahead of UTC.
create or replace function interlock.zone_offset(
    p_at timestamptz, p_zone text)
returns interval
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select (p_at at time zone p_zone) - (p_at at time zone 'UTC')
$$;

-- wall_instants(wall, zone, gap, fold): the instants of a wall time.
create or replace function interlock.wall_instants(
    p_wall timestamp, p_zone text, p_gap text, p_fold text)
returns timestamptz[]
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_utc   timestamptz := p_wall at time zone 'UTC';
    v_late  interval := interlock.zone_offset(
                            v_utc + interval '26 hours', p_zone);
    v_all   timestamptz[];
    v_lo    bigint;
    v_hi    bigint;
    v_mid   bigint;
begin
    -- No zone is more than 26 hours from UTC, so the offsets before and after
    -- a change near the wall time are among these.
    select array_agg(distinct x.at order by x.at) into v_all
    from (select v_utc - o.v as at
          from unnest(array[interlock.zone_offset(
                  v_utc - interval '26 hours', p_zone), v_late,
              interlock.zone_offset(p_wall at time zone p_zone, p_zone)])
              o (v)) x
    where x.at at time zone p_zone = p_wall;

    if cardinality(v_all) = 1 then
        return v_all;
    elsif cardinality(v_all) > 1 then
        return case p_fold when 'first' then v_all[1:1]
            when 'second' then v_all[cardinality(v_all):]
            else v_all end;
    elsif p_gap = 'skip' then
        return '{}';
    end if;

    -- In a gap: the first second at which the later offset holds.
    v_lo := extract(epoch from v_utc - interval '26 hours')::bigint;
    v_hi := extract(epoch from v_utc + interval '26 hours')::bigint;
    while v_hi - v_lo > 1 loop
        v_mid := (v_lo + v_hi) / 2;
        if interlock.zone_offset(to_timestamp(v_mid), p_zone) = v_late then
            v_hi := v_mid;
        else
            v_lo := v_mid;
        end if;
    end loop;

    return array[to_timestamp(v_hi)];
end
$$;

-- cron_on(c, day): is the day one of the expression's?
create or replace function interlock.cron_on(c interlock.cron, p_day date)
returns boolean
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select (c).months >> extract(month from p_day)::int & 1 = 1
        and case when (c).either
            then (c).days >> extract(day from p_day)::int & 1 = 1
                or (c).weekdays >> extract(dow from p_day)::int & 1 = 1
            else (c).days >> extract(day from p_day)::int & 1 = 1
                and (c).weekdays >> extract(dow from p_day)::int & 1 = 1 end
$$;

-- day_offset(zone, day): the offset that holds on that day and more than a
-- day to either side of it, or null if the clock moves meanwhile.
create or replace function interlock.day_offset(p_zone text, p_day date)
returns interval
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_utc  timestamptz := p_day::timestamp at time zone 'UTC';
    v_off  interval := interlock.zone_offset(v_utc - interval '26 hours',
                                             p_zone);
begin
    return case when v_off = interlock.zone_offset(
        v_utc + interval '50 hours', p_zone) then v_off end;
end
$$;

-- cron_day(c, zone, day, gap, fold): the instants of the expression's times
-- on a day of the wall clock, in order.
create or replace function interlock.cron_day(
    c interlock.cron, p_zone text, p_day date, p_gap text, p_fold text)
returns timestamptz[]
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_off  interval;
    v_all  timestamptz[];
begin
    if not interlock.cron_on(c, p_day) then
        return '{}';
    end if;

    v_off := interlock.day_offset(p_zone, p_day);

    if v_off is not null then
        select array_agg((p_day::timestamp at time zone 'UTC') - v_off
            + make_interval(hours => h.n, mins => m.n) order by h.n, m.n)
        into v_all
        from (select x as n from generate_series(0, 23) x
              where c.hours >> x & 1 = 1) h
        cross join (select x as n from generate_series(0, 59) x
                    where c.minutes >> x & 1 = 1) m;
    else
        select coalesce(array_agg(distinct i.at order by i.at), '{}')
        into v_all
        from (select x as n from generate_series(0, 23) x
              where c.hours >> x & 1 = 1) h
        cross join (select x as n from generate_series(0, 59) x
                    where c.minutes >> x & 1 = 1) m
        cross join unnest(interlock.wall_instants(p_day::timestamp
            + make_interval(hours => h.n, mins => m.n), p_zone, p_gap,
            p_fold)) i (at);
    end if;

    return v_all;
end
$$;

-- cron_time_after(c, minute): the first of the expression's times of a day
-- from that minute of the day on, in minutes, or null.
create or replace function interlock.cron_time_after(
    c interlock.cron, p_minute int)
returns int
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_from  int := p_minute % 60;
begin
    for h in p_minute / 60 .. 23 loop
        if c.hours >> h & 1 = 1 then
            for m in v_from .. 59 loop
                if c.minutes >> m & 1 = 1 then
                    return h * 60 + m;
                end if;
            end loop;
        end if;
        v_from := 0;
    end loop;

    return null;
end
$$;

-- cron_next(c, zone, after, gap, fold): the first instant after that one, or
-- null if there is none within 41 years (after which dates and weekdays have
-- met in every way).
create or replace function interlock.cron_next(
    c interlock.cron, p_zone text, p_after timestamptz, p_gap text,
    p_fold text)
returns timestamptz
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_wall   timestamp := p_after at time zone p_zone;
    v_first  date := v_wall::date;
    v_last   date := v_first + 366 * 41;
    d        date := v_first - 1;
    v_off    interval;
    v_min    int;
    v_at     timestamptz;
begin
    while d <= v_last loop
        if c.months >> extract(month from d)::int & 1 = 0
            and d > v_first + 2
        then
            d := date_trunc('month', d + interval '1 month')::date;
            continue;
        end if;

        v_off := interlock.day_offset(p_zone, d);

        if v_off is null then
            -- The clock moves about here: what is called yesterday may come
            -- after what is called today.
            select min(x.at) into v_at
            from generate_series(-1, 1) i
            cross join unnest(interlock.cron_day(c, p_zone, d + i, p_gap,
                p_fold)) x (at)
            where x.at > p_after;
            if v_at is not null then
                return v_at;
            end if;

        elsif d >= v_first and interlock.cron_on(c, d) then
            v_min := interlock.cron_time_after(c, case when d > v_first
                then 0 else extract(hour from v_wall)::int * 60
                    + extract(minute from v_wall)::int end);
            -- The very minute, unless it has passed.
            if d = v_first and (d::timestamp at time zone 'UTC') - v_off
                + make_interval(mins => v_min) <= p_after
            then
                v_min := interlock.cron_time_after(c, v_min + 1);
            end if;
            if v_min is not null then
                return (d::timestamp at time zone 'UTC') - v_off
                    + make_interval(mins => v_min);
            end if;
        end if;

        d := d + 1;
    end loop;

    return null;
end
$$;

-- cron_last(c, zone, after, until, gap, fold, max): the newest instants after
-- the one and not after the other, at most so many, in order.
create or replace function interlock.cron_last(
    c interlock.cron, p_zone text, p_after timestamptz,
    p_until timestamptz, p_gap text, p_fold text, p_max int)
returns timestamptz[]
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_end  date := (p_after at time zone p_zone)::date - 1;
    d      date := (p_until at time zone p_zone)::date + 1;
    v_all  timestamptz[] := '{}';
begin
    -- Three days more than needed, for those about a change of the clock.
    while d >= v_end loop
        v_all := interlock.cron_day(c, p_zone, d, p_gap, p_fold) || v_all;
        exit when (
            select count(*) from unnest(v_all) x (at)
            where x.at > p_after and x.at <= p_until
                and x.at >= ((d + 3)::timestamp at time zone p_zone)
            ) >= p_max;
        if c.months >> extract(month from d)::int & 1 = 0 then
            d := date_trunc('month', d)::date - 1;
        else
            d := d - 1;
        end if;
    end loop;

    return coalesce((
        select array_agg(y.at order by y.at)
        from (select distinct x.at from unnest(v_all) x (at)
              where x.at > p_after and x.at <= p_until
              order by x.at desc limit p_max) y), '{}');
end
$$;

-- cron_count(c, zone, after, until, gap, fold): how many instants there are
-- after the one and not after the other.  Days on which no clock moves are
-- counted without looking at their times.
create or replace function interlock.cron_count(
    c interlock.cron, p_zone text, p_after timestamptz,
    p_until timestamptz, p_gap text, p_fold text)
returns bigint
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_from   date := (p_after at time zone p_zone)::date - 1;
    v_to     date := (p_until at time zone p_zone)::date + 1;
    d        date := v_from;
    v_day    bigint := bit_count(c.minutes::bit(64))
                 * bit_count(c.hours::bit(32));
    v_n      bigint := 0;
    v_edges  timestamptz[] := '{}';
begin
    if p_until <= p_after then
        return 0;
    end if;

    while d <= v_to loop
        if interlock.cron_on(c, d) then
            if d > v_from + 2 and d < v_to - 2
                and interlock.day_offset(p_zone, d) is not null
            then
                v_n := v_n + v_day;
            else
                v_edges := v_edges
                    || interlock.cron_day(c, p_zone, d, p_gap, p_fold);
            end if;
        end if;
        d := d + 1;
    end loop;

    return v_n + (
        select count(distinct x.at) from unnest(v_edges) x (at)
        where x.at > p_after and x.at <= p_until);
end
$$;

revoke all on function interlock.zone_offset(timestamptz, text) from public;
revoke all on function interlock.wall_instants(timestamp, text, text, text)
    from public;
revoke all on function interlock.cron_on(interlock.cron, date) from public;
revoke all on function interlock.day_offset(text, date) from public;
revoke all on function interlock.cron_day(interlock.cron, text, date, text,
    text) from public;
revoke all on function interlock.cron_time_after(interlock.cron, int)
    from public;
revoke all on function interlock.cron_next(interlock.cron, text, timestamptz,
    text, text) from public;
revoke all on function interlock.cron_last(interlock.cron, text, timestamptz,
    timestamptz, text, text, int) from public;
revoke all on function interlock.cron_count(interlock.cron, text,
    timestamptz, timestamptz, text, text) from public;
