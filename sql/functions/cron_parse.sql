-- cron_parse.sql: five-field cron expressions, by Vixie cron's rules; helpers
-- of schedule_put.

-- cron_field(name, text, low, high, names): one field as a mask, bit n for
-- the value n; names are words for low, low + 1, ... (or empty).  why is what
-- is wrong, as an English sentence, or null.
create or replace function interlock.cron_field(
    p_name text, p_text text, p_low int, p_high int, p_names text[],
    out mask bigint, out why text)
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_item  text;
    v_word  text;
    v_n     int;
    v_from  int;
    v_to    int;
    v_step  int;
    m       text[];
begin
    mask := 0;

    foreach v_item in array string_to_array(p_text, ',') loop
        if v_item = '' then
            why := 'an entry of its list is empty';
            return;
        end if;

        m := regexp_match(v_item,
            '^(\*|\d{1,4}|[A-Za-z]+)(-(\d{1,4}|[A-Za-z]+))?(/(\d{1,4}))?$');
        if m is null or (m[1] = '*' and m[3] is not null) then
            why := format('"%s" is no value, range, step or *',
                          left(v_item, 32));
            return;
        end if;

        -- Both ends; a name counts as its number.
        for i in 1 .. 2 loop
            v_word := m[i * 2 - 1];
            continue when v_word is null or v_word = '*';
            if v_word ~ '^\d' then
                v_n := v_word::int;
            else
                v_n := p_low + array_position(p_names,
                    lower(v_word)) - 1;
            end if;
            if v_n is null then
                why := format('"%s" is no value of it%s', left(v_word, 32),
                    case when p_names = '{}' then '' else ', which are '
                    || 'numbers or ' || array_to_string(p_names, ', ') end);
                return;
            elsif v_n not between p_low and p_high then
                why := format('%s is not between %s and %s', v_n, p_low,
                              p_high);
                return;
            end if;
            if i = 1 then
                v_from := v_n;
            else
                v_to := v_n;
            end if;
        end loop;

        v_step := coalesce(m[5]::int, 1);
        if m[1] = '*' then
            v_from := p_low;
            v_to := p_high;
        elsif m[3] is null then
            v_to := v_from;
            if m[5] is not null then
                why := format('"%s" has a step but no range, write %s-%s/%s',
                    v_item, m[1], p_high, m[5]);
                return;
            end if;
        end if;

        if v_to < v_from then
            why := format('the range "%s" runs backwards', v_item);
            return;
        elsif v_step = 0 then
            why := format('the step of "%s" is 0', v_item);
            return;
        end if;

        while v_from <= v_to loop
            mask := mask | (1::bigint << v_from);
            v_from := v_from + v_step;
        end loop;
    end loop;
end
$$;

-- cron_parse(text): the expression as masks; or which field is wrong, and why
-- (field null: the expression as a whole).  Five fields, minute, hour, day of
-- month, month, day of week, of values, names, ranges, steps and lists; or
-- @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually.  Sunday
-- is 0 and 7.  If both day fields are restricted, a day is due that fits
-- either of them; a field that begins with * is not restricted, whatever its
-- step, and then a day must fit both.
create or replace function interlock.cron_parse(
    p_text text, out field text, out why text, out cron interlock.cron)
language plpgsql immutable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_text  text := btrim(p_text, E' \t');
    v_f     text[];
    v_mask  bigint[] := '{}';
    f       record;
begin
    if replace(v_text, E'\t', '') ~ '[[:cntrl:]]' then
        why := 'it has a line break, or another control character';
        return;
    end if;

    if v_text like '@%' then
        v_text := case lower(v_text)
            when '@hourly' then '0 * * * *'
            when '@daily' then '0 0 * * *'
            when '@midnight' then '0 0 * * *'
            when '@weekly' then '0 0 * * 0'
            when '@monthly' then '0 0 1 * *'
            when '@yearly' then '0 0 1 1 *'
            when '@annually' then '0 0 1 1 *' end;
        if v_text is null then
            why := format('"%s" is none of @hourly, @daily, @midnight, '
                '@weekly, @monthly, @yearly, @annually', left(p_text, 32));
            return;
        end if;
    end if;

    v_f := regexp_split_to_array(v_text, '[ \t]+');
    if cardinality(v_f) <> 5 or v_text = '' then
        why := format('it has %s fields, not five (minute, hour, day of '
            'month, month, day of week)',
            case when v_text = '' then 0 else cardinality(v_f) end);
        return;
    end if;

    for f in
        select x.name, x.i, y.* from (values
            (1, 'minute', 0, 59, '{}'::text[]),
            (2, 'hour', 0, 23, '{}'),
            (3, 'day of month', 1, 31, '{}'),
            (4, 'month', 1, 12, '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,'
                'nov,dec}'),
            (5, 'day of week', 0, 7, '{sun,mon,tue,wed,thu,fri,sat}')
        ) x (i, name, low, high, names)
        cross join lateral interlock.cron_field(x.name, v_f[x.i], x.low,
            x.high, x.names) y
        order by x.i
    loop
        if f.why is not null then
            field := f.name;
            why := f.why;
            return;
        end if;
        v_mask := v_mask || f.mask;
    end loop;

    cron.minutes := v_mask[1];
    cron.hours := v_mask[2];
    cron.days := v_mask[3];
    cron.months := v_mask[4];
    cron.weekdays := (v_mask[5] | (v_mask[5] >> 7)) & 127;
    cron.either := v_f[3] not like '*%' and v_f[5] not like '*%';
end
$$;

revoke all on function interlock.cron_field(text, text, int, int, text[])
    from public;
revoke all on function interlock.cron_parse(text) from public;
