-- order_of(k, tenant, work_key, priority, now, deadline): where an admitted
-- job stands among those of its kind, fixed at admission; helper of submit.
-- Locks: none; what it reads of others is a hint.
--
-- Without more: order_key = now − priority × aging, so a job is overtaken
-- only by those admitted before its own admission + the difference of
-- priorities × aging: nothing starves.  What bends that stays within
-- B = 200 × aging, the most that priorities (−100 .. 100) can differ:
--   deadline  a job due at D counts as admitted at D − B, but not before
--             now − B and not after now: sooner deadlines go first
--   newest    just before the first of those that wait with the same
--             priority, but not before now − B
-- Fair (fair_by): start-time fair queueing.  tag, the virtual time, is one
-- second after the customer's last waiting job, but not before the kind's
-- virtual time v (the latest tag that was claimed, plus one second; moved on
-- to now when nothing waits: idle, and the caller keeps it); order_key = tag −
-- priority × aging.  So a customer with one job stands before the second job
-- of every other one, however many those have.
create or replace function interlock.order_of(
    k interlock.kind_versions, p_tenant int, p_key text, p_priority int,
    p_now timestamptz, p_deadline timestamptz, out order_key timestamptz,
    out fair_value text, out tag timestamptz, out idle boolean)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_age   interval := make_interval(secs => p_priority::float8 * k.aging);
    v_bend  interval := make_interval(secs => 200.0 * k.aging);
    v_v     timestamptz;
    v_tag   timestamptz;
begin
    if k.fair_part is not null then
        fair_value := split_part(p_key, ':', k.fair_part);

        select x.v into v_v from interlock.kind_pace x
        where x.tenant = p_tenant and x.kind = k.name;

        perform from interlock.jobs_live j
        where j.tenant = p_tenant and j.kind = k.name
            and j.tag is not null and j.place is not null
        limit 1;
        idle := not found;

        if idle then
            tag := greatest(v_v, p_now);
        else
            -- The kind's virtual time, or what stands first, should that be
            -- later (v is kept without waiting, and may lag).
            select j.tag into v_tag from interlock.jobs_live j
            where j.tenant = p_tenant and j.kind = k.name
                and j.place = 'ready'
            order by j.order_key, j.id limit 1;
            tag := coalesce(greatest(v_v, v_tag), p_now);

            select j.tag into v_tag from interlock.jobs_live j
            where j.tenant = p_tenant and j.kind = k.name
                and j.fair_value = order_of.fair_value
                and j.tag is not null and j.place is not null
            order by j.tag desc limit 1;
            tag := greatest(tag, v_tag + interval '1 second');
        end if;

        order_key := tag - v_age;

    elsif k."order" = 'newest' then
        fair_value := p_priority::text;

        select j.tag into v_tag from interlock.jobs_live j
        where j.tenant = p_tenant and j.kind = k.name
            and j.fair_value = order_of.fair_value
            and j.tag is not null and j.place is not null
        order by j.tag limit 1;

        tag := greatest(p_now - v_bend,
            least(p_now, v_tag - interval '1 microsecond'));
        order_key := tag - v_age;

    elsif k."order" = 'deadline' and p_deadline is not null then
        order_key := greatest(p_now - v_bend,
            least(p_now, p_deadline - v_bend)) - v_age;

    else
        order_key := p_now - v_age;
    end if;
end
$$;

revoke all on function interlock.order_of(interlock.kind_versions, int, text,
    int, timestamptz, timestamptz) from public;
