-- cron.sql: expressions, and where they lead in zones whose clocks move.

begin;
set local search_path = tap, t, pg_catalog;
set local timezone = 'America/Los_Angeles';    -- nobody's, on purpose
select * from no_plan();

-- The next n times after p_after (a wall time of the zone), as wall times
-- with their offset where it is not asked for UTC.
create function pg_temp.next(p_cron text, p_zone text, p_after timestamptz,
    p_n int, p_gap text default 'run_after', p_fold text default 'first')
returns text language plpgsql as $$
declare
    c      record;
    v_at   timestamptz := p_after;
    v_out  text[] := '{}';
begin
    select * into strict c from interlock.cron_parse(p_cron);
    if c.why is not null then
        return format('%s: %s', c.field, c.why);
    end if;
    for i in 1 .. p_n loop
        v_at := interlock.cron_next(c.cron, p_zone, v_at, p_gap, p_fold);
        v_out := v_out || coalesce(to_char(v_at at time zone 'UTC',
            'MM-DD HH24:MI'), 'never');
        exit when v_at is null;
    end loop;
    return array_to_string(v_out, ', ');
end
$$;

create function pg_temp.utc(p_cron text, p_after text, p_n int)
returns text language sql as $$
    select pg_temp.next(p_cron, 'UTC', (p_after || 'Z')::timestamptz, p_n)
$$;

create function pg_temp.day(p_cron text, p_after text, p_n int)
returns text language plpgsql as $$
declare
    c      record;
    v_at   timestamptz := (p_after || 'Z')::timestamptz;
    v_out  text[] := '{}';
begin
    select * into strict c from interlock.cron_parse(p_cron);
    for i in 1 .. p_n loop
        v_at := interlock.cron_next(c.cron, 'UTC', v_at, 'skip', 'first');
        v_out := v_out || to_char(v_at at time zone 'UTC',
            'YYYY-MM-DD Dy');
    end loop;
    return array_to_string(v_out, ', ');
end
$$;

-- 2026-07-24 is a Friday.
select is(pg_temp.utc(x.cron, '2026-07-24 09:07', 4), x.times, x.cron)
from (values
    ('* * * * *', '07-24 09:08, 07-24 09:09, 07-24 09:10, 07-24 09:11'),
    ('*/5 * * * *', '07-24 09:10, 07-24 09:15, 07-24 09:20, 07-24 09:25'),
    ('*/7 * * * *', '07-24 09:14, 07-24 09:21, 07-24 09:28, 07-24 09:35'),
    ('*/7 9,10 * * *', '07-24 09:14, 07-24 09:21, 07-24 09:28, 07-24 09:35'),
    ('56 * * * *', '07-24 09:56, 07-24 10:56, 07-24 11:56, 07-24 12:56'),
    ('7 9 * * *', '07-25 09:07, 07-26 09:07, 07-27 09:07, 07-28 09:07'),
    ('8 9 * * *', '07-24 09:08, 07-25 09:08, 07-26 09:08, 07-27 09:08'),
    ('0 0 * * *', '07-25 00:00, 07-26 00:00, 07-27 00:00, 07-28 00:00'),
    ('5 0 * 8 *', '08-01 00:05, 08-02 00:05, 08-03 00:05, 08-04 00:05'),
    ('15 14 1 * *', '08-01 14:15, 09-01 14:15, 10-01 14:15, 11-01 14:15'),
    ('0 22 * * 1-5', '07-24 22:00, 07-27 22:00, 07-28 22:00, 07-29 22:00'),
    ('23 0-20/2 * * *', '07-24 10:23, 07-24 12:23, 07-24 14:23, 07-24 16:23'),
    ('5 4 * * sun', '07-26 04:05, 08-02 04:05, 08-09 04:05, 08-16 04:05'),
    ('0 0,12 1 */2 *', '09-01 00:00, 09-01 12:00, 11-01 00:00, 11-01 12:00'),
    ('0 4 8-14 * *', '08-08 04:00, 08-09 04:00, 08-10 04:00, 08-11 04:00'),
    ('0-10/5,30 10 * * *', '07-24 10:00, 07-24 10:05, 07-24 10:10, 07-24 10:30'),
    ('59 23 31 12 *', '12-31 23:59, 12-31 23:59, 12-31 23:59, 12-31 23:59'),
    ('0 0 29 2 *', '02-29 00:00, 02-29 00:00, 02-29 00:00, 02-29 00:00'),
    ('0 0 31 2 *', 'never'),
    ('0 0 30 2 *', 'never'),
    ('0 0 31 4,6,9,11 *', 'never'),
    ('0 12 * jan-mar,DEC Mon', '12-07 12:00, 12-14 12:00, 12-21 12:00, 12-28 12:00'),
    ('1-59/2 9 * * *', '07-24 09:09, 07-24 09:11, 07-24 09:13, 07-24 09:15'),
    ('*/100 * * * *', '07-24 10:00, 07-24 11:00, 07-24 12:00, 07-24 13:00'),
    ('  0	9  * * *  ', '07-25 09:00, 07-26 09:00, 07-27 09:00, 07-28 09:00'),
    ('@hourly', '07-24 10:00, 07-24 11:00, 07-24 12:00, 07-24 13:00'),
    ('@daily', '07-25 00:00, 07-26 00:00, 07-27 00:00, 07-28 00:00'),
    ('@midnight', '07-25 00:00, 07-26 00:00, 07-27 00:00, 07-28 00:00'),
    ('@weekly', '07-26 00:00, 08-02 00:00, 08-09 00:00, 08-16 00:00'),
    ('@monthly', '08-01 00:00, 09-01 00:00, 10-01 00:00, 11-01 00:00'),
    ('@YEARLY', '01-01 00:00, 01-01 00:00, 01-01 00:00, 01-01 00:00'),
    ('@annually', '01-01 00:00, 01-01 00:00, 01-01 00:00, 01-01 00:00')
) x (cron, times);

-- Days.
select is(pg_temp.day(x.cron, '2026-07-24 12:00', 4), x.days, x.cron)
from (values
    ('0 0 * * 0', '2026-07-26 Sun, 2026-08-02 Sun, 2026-08-09 Sun, 2026-08-16 Sun'),
    ('0 0 * * 7', '2026-07-26 Sun, 2026-08-02 Sun, 2026-08-09 Sun, 2026-08-16 Sun'),
    ('0 0 * * 0,7', '2026-07-26 Sun, 2026-08-02 Sun, 2026-08-09 Sun, 2026-08-16 Sun'),
    ('0 0 * * 5-7', '2026-07-25 Sat, 2026-07-26 Sun, 2026-07-31 Fri, 2026-08-01 Sat'),
    ('0 0 * * */7', '2026-07-26 Sun, 2026-08-02 Sun, 2026-08-09 Sun, 2026-08-16 Sun'),
    ('0 0 * * 1-7/2', '2026-07-26 Sun, 2026-07-27 Mon, 2026-07-29 Wed, 2026-07-31 Fri'),
    ('0 0 13 * 5', '2026-07-31 Fri, 2026-08-07 Fri, 2026-08-13 Thu, 2026-08-14 Fri'),
    ('0 0 1,15 * 3', '2026-07-29 Wed, 2026-08-01 Sat, 2026-08-05 Wed, 2026-08-12 Wed'),
    ('0 0 */13 * 5', '2026-08-14 Fri, 2026-11-27 Fri, 2027-01-01 Fri, 2027-05-14 Fri'),
    ('0 0 13 * */5', '2026-09-13 Sun, 2026-11-13 Fri, 2026-12-13 Sun, 2027-06-13 Sun'),
    ('0 0 1-7 * *', '2026-08-01 Sat, 2026-08-02 Sun, 2026-08-03 Mon, 2026-08-04 Tue'),
    ('0 0 31 * *', '2026-07-31 Fri, 2026-08-31 Mon, 2026-10-31 Sat, 2026-12-31 Thu'),
    ('0 0 29 2 *', '2028-02-29 Tue, 2032-02-29 Sun, 2036-02-29 Fri, 2040-02-29 Wed'),
    ('0 0 29 2 */7', '2032-02-29 Sun, 2060-02-29 Sun, 2088-02-29 Sun, 2128-02-29 Sun')
) x (cron, days);

-- What is wrong, and in which field.
select results_eq(
    format('select field, why from interlock.cron_parse(%L)', x.cron),
    format('values (%L::text, %L::text)', x.field, x.why), x.cron)
from (values
    ('60 * * * *', 'minute', '60 is not between 0 and 59'),
    ('* 24 * * *', 'hour', '24 is not between 0 and 23'),
    ('* * 0 * *', 'day of month', '0 is not between 1 and 31'),
    ('* * 32 * *', 'day of month', '32 is not between 1 and 31'),
    ('* * * 13 *', 'month', '13 is not between 1 and 12'),
    ('* * * * 8', 'day of week', '8 is not between 0 and 7'),
    ('* * * foo *', 'month', '"foo" is no value of it, which are numbers or jan, feb, mar, apr, may, jun, jul, aug, sep, oct, nov, dec'),
    ('* * * * monday', 'day of week', '"monday" is no value of it, which are numbers or sun, mon, tue, wed, thu, fri, sat'),
    ('mon * * * *', 'minute', '"mon" is no value of it'),
    ('5-3 * * * *', 'minute', 'the range "5-3" runs backwards'),
    ('* * * * fri-sun', 'day of week', 'the range "fri-sun" runs backwards'),
    ('*/0 * * * *', 'minute', 'the step of "*/0" is 0'),
    ('5/15 * * * *', 'minute', '"5/15" has a step but no range, write 5-59/15'),
    ('1,,2 * * * *', 'minute', 'an entry of its list is empty'),
    ('1, * * * *', 'minute', 'an entry of its list is empty'),
    ('*-5 * * * *', 'minute', '"*-5" is no value, range, step or *'),
    ('-5 * * * *', 'minute', '"-5" is no value, range, step or *'),
    ('1.5 * * * *', 'minute', '"1.5" is no value, range, step or *'),
    ('99999999999 * * * *', 'minute', '"99999999999" is no value, range, step or *'),
    ('* * L * *', 'day of month', '"L" is no value of it'),
    ('* * ? * *', 'day of month', '"?" is no value, range, step or *'),
    ('* * * * 5#2', 'day of week', '"5#2" is no value, range, step or *'),
    ('* * * *', null, 'it has 4 fields, not five (minute, hour, day of month, month, day of week)'),
    ('0 0 * * * *', null, 'it has 6 fields, not five (minute, hour, day of month, month, day of week)'),
    ('', null, 'it has 0 fields, not five (minute, hour, day of month, month, day of week)'),
    (E'0 9 * * *\n', null, 'it has a line break, or another control character'),
    ('@reboot', null, '"@reboot" is none of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually')
) x (cron, field, why);

-- Clocks put forward and back.  All instants in UTC.
select is(pg_temp.next(x.cron, x.zone, x.after::timestamptz, x.n, x.gap,
        x.fold),
    x.times, format('%s in %s from %s, %s, %s', x.cron, x.zone, x.after,
        x.gap, x.fold))
from (values
    -- Berlin: 2026-03-29 02:00 is 03:00 (01:00 UTC), 2026-10-25 03:00 is
    -- 02:00 again (01:00 UTC).
    ('30 2 * * *', 'Europe/Berlin', '2026-03-28 00:00Z', 3, 'run_after', 'first', '03-28 01:30, 03-29 01:00, 03-30 00:30'),
    ('30 2 * * *', 'Europe/Berlin', '2026-03-28 00:00Z', 3, 'skip', 'first', '03-28 01:30, 03-30 00:30, 03-31 00:30'),
    ('30 2 * * *', 'Europe/Berlin', '2026-10-24 00:00Z', 4, 'run_after', 'first', '10-24 00:30, 10-25 00:30, 10-26 01:30, 10-27 01:30'),
    ('30 2 * * *', 'Europe/Berlin', '2026-10-24 00:00Z', 4, 'run_after', 'second', '10-24 00:30, 10-25 01:30, 10-26 01:30, 10-27 01:30'),
    ('30 2 * * *', 'Europe/Berlin', '2026-10-24 00:00Z', 4, 'run_after', 'both', '10-24 00:30, 10-25 00:30, 10-25 01:30, 10-26 01:30'),
    ('*/30 * * * *', 'Europe/Berlin', '2026-03-29 00:00Z', 4, 'run_after', 'first', '03-29 00:30, 03-29 01:00, 03-29 01:30, 03-29 02:00'),
    ('*/30 2-3 * * *', 'Europe/Berlin', '2026-03-29 00:00Z', 3, 'run_after', 'first', '03-29 01:00, 03-29 01:30, 03-30 00:00'),
    ('*/30 2-3 * * *', 'Europe/Berlin', '2026-03-29 00:00Z', 3, 'skip', 'first', '03-29 01:00, 03-29 01:30, 03-30 00:00'),
    ('*/30 2 * * *', 'Europe/Berlin', '2026-03-29 00:00Z', 2, 'skip', 'first', '03-30 00:00, 03-30 00:30'),
    ('*/30 * * * *', 'Europe/Berlin', '2026-10-24 23:30Z', 6, 'run_after', 'first', '10-25 00:00, 10-25 00:30, 10-25 02:00, 10-25 02:30, 10-25 03:00, 10-25 03:30'),
    ('*/30 * * * *', 'Europe/Berlin', '2026-10-24 23:30Z', 6, 'run_after', 'second', '10-25 01:00, 10-25 01:30, 10-25 02:00, 10-25 02:30, 10-25 03:00, 10-25 03:30'),
    ('*/30 * * * *', 'Europe/Berlin', '2026-10-24 23:30Z', 6, 'run_after', 'both', '10-25 00:00, 10-25 00:30, 10-25 01:00, 10-25 01:30, 10-25 02:00, 10-25 02:30'),
    -- New York: 2026-03-08 02:00 is 03:00 (07:00 UTC), 2026-11-01 02:00 is
    -- 01:00 again (06:00 UTC).
    ('15 2 * * *', 'America/New_York', '2026-03-07 12:00Z', 2, 'run_after', 'first', '03-08 07:00, 03-09 06:15'),
    ('15 2 * * *', 'America/New_York', '2026-03-07 12:00Z', 2, 'skip', 'first', '03-09 06:15, 03-10 06:15'),
    ('15 1 * * *', 'America/New_York', '2026-10-31 12:00Z', 3, 'run_after', 'first', '11-01 05:15, 11-02 06:15, 11-03 06:15'),
    ('15 1 * * *', 'America/New_York', '2026-10-31 12:00Z', 3, 'run_after', 'second', '11-01 06:15, 11-02 06:15, 11-03 06:15'),
    ('15 1 * * *', 'America/New_York', '2026-10-31 12:00Z', 3, 'run_after', 'both', '11-01 05:15, 11-01 06:15, 11-02 06:15'),
    ('0 * * * *', 'America/New_York', '2026-11-01 04:30Z', 4, 'run_after', 'both', '11-01 05:00, 11-01 06:00, 11-01 07:00, 11-01 08:00'),
    ('0 * * * *', 'America/New_York', '2026-11-01 04:30Z', 4, 'run_after', 'first', '11-01 05:00, 11-01 07:00, 11-01 08:00, 11-01 09:00'),
    -- Sao Paulo, in the last year that it did so: 2018-02-18 00:00 is
    -- 2018-02-17 23:00 again (02:00 UTC), 2018-11-04 00:00 is 01:00 (03:00
    -- UTC): a day without a midnight.
    ('0 0 * * *', 'America/Sao_Paulo', '2018-11-03 00:00Z', 3, 'run_after', 'first', '11-03 03:00, 11-04 03:00, 11-05 02:00'),
    ('0 0 * * *', 'America/Sao_Paulo', '2018-11-03 00:00Z', 3, 'skip', 'first', '11-03 03:00, 11-05 02:00, 11-06 02:00'),
    ('30 23 * * *', 'America/Sao_Paulo', '2018-02-17 00:00Z', 3, 'run_after', 'first', '02-17 01:30, 02-18 01:30, 02-19 02:30'),
    ('30 23 * * *', 'America/Sao_Paulo', '2018-02-17 00:00Z', 3, 'run_after', 'second', '02-17 01:30, 02-18 02:30, 02-19 02:30'),
    ('30 23 * * *', 'America/Sao_Paulo', '2018-02-17 00:00Z', 3, 'run_after', 'both', '02-17 01:30, 02-18 01:30, 02-18 02:30'),
    ('0 0 * * *', 'America/Sao_Paulo', '2018-02-17 12:00Z', 2, 'run_after', 'first', '02-18 03:00, 02-19 03:00'),
    ('0 0 * * *', 'America/Sao_Paulo', '2026-02-14 12:00Z', 2, 'run_after', 'first', '02-15 03:00, 02-16 03:00'),
    -- Lord Howe, by half an hour: 2026-04-05 02:00 is 01:30 again (04-04
    -- 15:00 UTC), 2026-10-04 02:00 is 02:30 (10-03 15:30 UTC).
    ('15 2 * * *', 'Australia/Lord_Howe', '2026-10-02 12:00Z', 3, 'run_after', 'first', '10-02 15:45, 10-03 15:30, 10-04 15:15'),
    ('15 2 * * *', 'Australia/Lord_Howe', '2026-10-02 12:00Z', 3, 'skip', 'first', '10-02 15:45, 10-04 15:15, 10-05 15:15'),
    ('30 2 * * *', 'Australia/Lord_Howe', '2026-10-02 12:00Z', 3, 'skip', 'first', '10-02 16:00, 10-03 15:30, 10-04 15:30'),
    ('45 1 * * *', 'Australia/Lord_Howe', '2026-04-03 12:00Z', 3, 'run_after', 'first', '04-03 14:45, 04-04 14:45, 04-05 15:15'),
    ('45 1 * * *', 'Australia/Lord_Howe', '2026-04-03 12:00Z', 3, 'run_after', 'second', '04-03 14:45, 04-04 15:15, 04-05 15:15'),
    ('45 1 * * *', 'Australia/Lord_Howe', '2026-04-03 12:00Z', 3, 'run_after', 'both', '04-03 14:45, 04-04 14:45, 04-04 15:15'),
    ('15 1 * * *', 'Australia/Lord_Howe', '2026-04-03 12:00Z', 3, 'run_after', 'both', '04-03 14:15, 04-04 14:15, 04-05 14:45'),
    ('0,30 1,2 * * *', 'Australia/Lord_Howe', '2026-04-04 12:00Z', 6, 'run_after', 'both', '04-04 14:00, 04-04 14:30, 04-04 15:00, 04-04 15:30, 04-04 16:00, 04-05 14:30'),
    -- Seoul: none.
    ('30 2 * * *', 'Asia/Seoul', '2026-03-28 00:00Z', 3, 'skip', 'both', '03-28 17:30, 03-29 17:30, 03-30 17:30'),
    ('0 9 * * *', 'Asia/Seoul', '2026-10-24 00:00Z', 3, 'skip', 'both', '10-25 00:00, 10-26 00:00, 10-27 00:00'),
    -- Samoa left out the 30th of December 2011 altogether.
    ('0 12 * * *', 'Pacific/Apia', '2011-12-29 00:00Z', 3, 'run_after', 'first', '12-29 22:00, 12-30 10:00, 12-30 22:00'),
    ('0 12 * * *', 'Pacific/Apia', '2011-12-29 00:00Z', 3, 'skip', 'first', '12-29 22:00, 12-30 22:00, 12-31 22:00')
) x (cron, zone, after, n, gap, fold, times);

-- Stepping forward, counting and looking back are one.
create function pg_temp.steps(p_cron text, p_zone text, p_from timestamptz,
    p_to timestamptz, p_gap text, p_fold text) returns boolean
language plpgsql as $$
declare
    c      record;
    v_at   timestamptz := p_from;
    v_all  timestamptz[] := '{}';
begin
    select * into c from interlock.cron_parse(p_cron);
    loop
        v_at := interlock.cron_next(c.cron, p_zone, v_at, p_gap, p_fold);
        exit when v_at > p_to;
        v_all := v_all || v_at;
    end loop;
    return v_all = interlock.cron_last(c.cron, p_zone, p_from, p_to, p_gap,
            p_fold, cardinality(v_all) + 1)
        and v_all[cardinality(v_all) - 2:] = interlock.cron_last(c.cron,
            p_zone, p_from, p_to, p_gap, p_fold, 3)
        and cardinality(v_all) = interlock.cron_count(c.cron, p_zone, p_from,
            p_to, p_gap, p_fold);
end
$$;

select ok(pg_temp.steps('37 1,2,23 * * *', z, (y || '-01-01 01:07Z')::timestamptz,
    (y || '-12-20 02:37Z')::timestamptz, g, f),
    format('a year of %s, %s, %s, in steps and as a whole', z, g, f))
from (values ('Europe/Berlin', 2026, 'run_after', 'first'),
    ('America/New_York', 2026, 'skip', 'second'),
    ('America/Sao_Paulo', 2018, 'run_after', 'both'),
    ('Australia/Lord_Howe', 2026, 'run_after', 'both'),
    ('Asia/Seoul', 2026, 'skip', 'both')) x (z, y, g, f);

select is(interlock.cron_count((interlock.cron_parse('* * * * *')).cron,
    'Asia/Seoul', '2026-06-01 00:00Z', '2026-07-01 00:00Z', 'skip', 'both'),
    43200::bigint, '43,200 minutes are counted day by day');

select * from finish();
rollback;
