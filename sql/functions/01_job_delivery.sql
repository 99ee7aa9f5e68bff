-- 01_job_delivery.sql: before the files that show a job, live or ended.

-- job_delivery(j): has the job reached those for whom it was made: delivered
-- once each of its kind's delivery_effects is confirmed, pending before that;
-- null if the kind names none.  Locks: none.
create or replace function interlock.job_delivery(j interlock.jobs)
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_names  text[];
    v_scope  text;
begin
    select v.delivery_effects into v_names from interlock.kind_versions v
    where v.tenant = j.tenant and v.name = j.kind
        and v.version = j.kind_version;
    if v_names is null or v_names = '{}' then
        return null;
    end if;

    select x.scope into v_scope from interlock.effect_scope_of(j) x;

    perform from unnest(v_names) n (name)
    where not exists (
        select from interlock.effects e
        where e.tenant = j.tenant and e.scope = v_scope
            and e.name = n.name and e.state = 'confirmed');
    return case when found then 'pending' else 'delivered' end;
end
$$;

revoke all on function interlock.job_delivery(interlock.jobs) from public;
