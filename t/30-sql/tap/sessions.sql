-- sessions.sql: who is logged in: no more than their token, and not for
-- longer.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

create function pg_temp.h(n int) returns bytea language sql as $$
    select decode(lpad(to_hex(n), 64, '0'), 'hex')
$$;
-- in steps of twenty seconds: a machine may be slow
create function pg_temp.about(x interval) returns int language sql as $$
    select (round(extract(epoch from x) / 20) * 20)::int
$$;
create function pg_temp.begins(
    p_token int, p_hash int, p_old int default null)
returns text language sql as $$
    select concat_ws(' ', outcome, token_name, role,
        pg_temp.about(idle_end - clock_timestamp()),
        pg_temp.about(absolute_end - clock_timestamp()))
    from interlock.session_begin(pg_temp.h(p_token), pg_temp.h(p_hash),
        pg_temp.h(p_old), 600000, 3600000)
$$;
create function pg_temp.finds(p_hash int, p_use boolean default true)
returns text language sql as $$
    select concat_ws(' ', token_name, role,
        pg_temp.about(idle_end - clock_timestamp()),
        pg_temp.about(absolute_end - clock_timestamp()),
        pg_temp.about(left_ms * interval '1 millisecond'))
    from interlock.session_find(pg_temp.h(p_hash), 600000, p_use)
$$;
-- as if it had been opened, used, and were to end, so many seconds from now
create function pg_temp.at(p_hash int, p_opened int, p_seen int, p_ends int)
returns void language sql as $$
    update interlock.sessions s
    set created_at = clock_timestamp() + p_opened * interval '1 second',
        seen_at = clock_timestamp() + p_seen * interval '1 second',
        ends_at = clock_timestamp() + p_ends * interval '1 second'
    where s.hash = pg_temp.h(p_hash)
$$;
create function pg_temp.seen(p_hash int) returns int language sql as $$
    select pg_temp.about(clock_timestamp() - s.seen_at)
    from interlock.sessions s where s.hash = pg_temp.h(p_hash)
$$;

select interlock.token_create(t.demo(), r, r, pg_temp.h(n))
from (values ('operator', 1), ('auditor', 2), ('submit', 3), ('worker', 4))
    x (r, n);

select is(pg_temp.begins(1, 11), 'ok operator operator 600 3600',
    'an operator is in');
select is(pg_temp.begins(2, 12), 'ok auditor auditor 600 3600',
    'an auditor too');
select is(pg_temp.begins(3, 13), 'role submit submit', 'a program is not');
select is(pg_temp.begins(4, 14), 'role worker worker', 'nor a worker');
select is(pg_temp.begins(9, 15), 'unknown', 'nor nobody');
select is((select count(*) from interlock.sessions), 2::bigint,
    'two sessions are there');
select is(pg_temp.begins(1, 11), 'ok operator operator 600 3600',
    'the same call again');
select is((select count(*) from interlock.sessions), 2::bigint,
    'opens no other');
select is(pg_temp.begins(1, 16, 11), 'ok operator operator 600 3600',
    'another login');
select is(pg_temp.finds(11), null, 'ends the one before it');
select is(pg_temp.begins(1, 16, 16), 'ok operator operator 600 3600',
    'a call again that names its own as the one before');
select is(pg_temp.finds(16), 'operator operator 600 3600 600',
    'does not end itself');
select is(pg_temp.begins(9, 17, 16), 'unknown', 'a login that fails');
select isnt(pg_temp.finds(16), null, 'ends nothing');

-- Time.
select pg_temp.at(16, -1000, -500, 3000);
select is(pg_temp.finds(16, false), 'operator operator 100 3000 100',
    'to ask is no use');
select is(pg_temp.seen(16), 500, 'of it');
select is(pg_temp.finds(16), 'operator operator 600 3000 600', 'a use of it');
select is(pg_temp.seen(16), 0, 'is written');
select pg_temp.at(16, -1000, -15, 3000);
select is(pg_temp.finds(16), 'operator operator 580 3000 580',
    'soon after another');
select is(pg_temp.seen(16), 20, 'it is not');
select pg_temp.at(16, -1000, -20, 3000);
select is(pg_temp.finds(16), 'operator operator 600 3000 600',
    'a thirtieth of the idle time later');
select is(pg_temp.seen(16), 0, 'it is');
select pg_temp.at(16, -1000, -300, 200);
select is(pg_temp.finds(16), 'operator operator 200 200 200',
    'no use makes it last beyond its end');
select pg_temp.at(16, -1000, -601, 3000);
select is(pg_temp.finds(16), null, 'unused it is over');
select is(pg_temp.finds(16, false), null, 'for who asks, too');
select pg_temp.at(16, -1000, -1, 0);
select is(pg_temp.finds(16), null, 'in the end it is over, used or not');
select is(interlock.prune(100), 1, 'and is removed');
select is((select string_agg(encode(s.hash, 'hex'), ' ')
    from interlock.sessions s), encode(pg_temp.h(12), 'hex'),
    'the other one stays');
select is(interlock.prune(100), 0, 'for as long as it lasts');

-- Its token.
select is(interlock.session_end(pg_temp.h(12)), true, 'a logout');
select is(interlock.session_end(pg_temp.h(12)), false, 'a second one');
select is(pg_temp.finds(12), null, 'it is over');
select pg_temp.begins(1, n) from generate_series(20, 24) n;
select pg_temp.begins(2, 30);
update interlock.api_tokens a set revoked_at = clock_timestamp()
where a.hash = pg_temp.h(1);
select is(pg_temp.finds(20), null, 'of a revoked token there is none');
update interlock.api_tokens a set revoked_at = null
where a.hash = pg_temp.h(1);
select isnt(pg_temp.finds(20), null, '(there was)');
select is(interlock.token_revoke(a.tenant, a.id), true, 'a revocation')
from interlock.api_tokens a where a.hash = pg_temp.h(1);
select is((select string_agg(a.name, ' ') from interlock.sessions s
    join interlock.api_tokens a on a.id = s.token_id), 'auditor',
    'removes the sessions of its token, and no other');
select is(interlock.token_revoke(a.tenant, a.id), false, 'a second one')
from interlock.api_tokens a where a.hash = pg_temp.h(1);
select is(pg_temp.begins(1, 40), 'unknown', 'it opens none any more');
delete from interlock.api_tokens a where a.hash = pg_temp.h(2);
select is((select count(*) from interlock.sessions), 0::bigint,
    'they go with a token that is deleted');

-- No more than 200 a token.
select interlock.token_create(t.demo(), 'many', 'auditor', pg_temp.h(5));
select count(pg_temp.begins(5, 1000 + n)) from generate_series(1, 205) n;
select is((select count(*) from interlock.sessions), 200::bigint,
    'two hundred at most');
select is(pg_temp.finds(1005), null, 'the oldest go');
select isnt(pg_temp.finds(1006), null, 'no others');

select throws_ok($$insert into interlock.sessions (hash, tenant, token_id,
    ends_at) values ('\x00', t.demo(), 1, 'infinity')$$, '23514', null,
    'a hash is a hash');

select * from finish();
rollback;
