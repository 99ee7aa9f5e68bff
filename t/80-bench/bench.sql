-- Jobs in bulk for the benches, by the function that interlockd calls.

create schema bench;

-- p_n submissions of the tenant demo in batches of 500, a commit each
create procedure bench.fill(p_kind text, p_prefix text, p_n int)
language plpgsql as $$
declare
    v_from    int := 1;
    v_tenant  int := (select tenant from interlock.tenant_find('demo'));
    v_bad     text;
    n         int;
    h         record;
begin
    perform set_config('plan_cache_mode', 'force_generic_plan', false);
    perform set_config('jit', 'off', false);
    while v_from <= p_n loop
        n := least(500, p_n - v_from + 1);
        select array_agg(gen_random_uuid()) as id,
            array_agg(p_prefix || ':' || x) as key
        into h from generate_series(v_from, v_from + n - 1) x;
        select min(coalesce(problem, outcome)) into v_bad
        from interlock.submit(array_fill(v_tenant, array[n]), h.id,
            array_fill('api'::text, array[n]),
            array_fill(null::text, array[n]),
            array_fill('\x01'::bytea, array[n]),
            array_fill('reject'::text, array[n]),
            array_fill(p_kind, array[n]), h.key,
            array_fill(null::bigint, array[n]),
            array_fill('\x7b226e223a20317d'::bytea, array[n]),
            array_fill('application/json'::text, array[n]),
            array_fill(null::text, array[n]),
            array_fill(null::text, array[n]),
            array_fill(null::int, array[n]),
            array_fill(null::timestamptz, array[n]),
            array_fill(null::timestamptz, array[n]),
            array_fill(false, array[n]), array_fill(null::text, array[n]),
            array_fill(null::text, array[n]), true)
        where outcome <> 'ok';
        if v_bad is not null then
            raise exception 'submit: %', v_bad;
        end if;
        commit;
        v_from := v_from + n;
    end loop;
    perform set_config('plan_cache_mode', 'auto', false);
end
$$;
