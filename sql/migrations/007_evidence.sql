-- 007_evidence.sql: what providers' own webhooks say of effects.

-- Which effect kinds learn from which source; by effect_kind_put.
create table interlock.evidence_sources (
    tenant       int not null,
    source       text not null,
    effect_kind  text not null,
    primary key (tenant, source, effect_kind)
);

-- Requests of these sources that nobody has looked into yet.
create table interlock.evidence_queue (
    tenant  int not null,
    id      bigint generated always as identity,
    job_id  uuid not null,
    source  text not null,
    primary key (tenant, id)
) with (autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

create index evidence_queue_order on interlock.evidence_queue (id);

create function interlock.evidence_note() returns trigger
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    perform from interlock.evidence_sources s
    where s.tenant = new.tenant and s.source = new.source
    limit 1;
    if found then
        insert into interlock.evidence_queue (tenant, job_id, source)
        values (new.tenant, new.id, new.source);
    end if;
    return null;
end
$$;

revoke all on function interlock.evidence_note() from public;

-- What comes in by the API and the like costs a comparison; a webhook a look
-- into a table of a few rows.
create trigger jobs_evidence after insert on interlock.jobs
    for each row
    when (new.source not in ('api', 'button', 'schedule', 'backfill',
        'rerun'))
    execute function interlock.evidence_note();

-- Effects by the provider's reference.
create index effects_ref on interlock.effects (tenant, provider_ref)
    where provider_ref is not null;

create type interlock.evidence as (
    effect_id     uuid,
    round         int,     -- null: not said
    provider_ref  text,
    said          text,
    by_key        boolean, -- it names the key of the round
    by_ref        boolean, -- it was found by provider_ref
    detail        text     -- not null: why it settles nothing
);
