-- kind_advice(tenant, name, recovery): who: interlockd, GET
-- /v1/kinds/{name}/advice.
-- What is measured of a kind's last attempts that ended (at most 2000, none
-- older than 30 days), and the lease that this speaks for.  recovery is the
-- number of seconds in which a lost job should run again, or null.
-- Locks: none.
-- Answers: one row, doc {kind, samples, window_seconds, run_seconds: {p50,
-- p90, p99, max}, renewal_gap_seconds: {p50, p90, p99, max}, wait_seconds:
-- {p50, p95, p99}, lost, recovery_goal_seconds, proposed: {lease_seconds,
-- why}, current: {lease_seconds}}; no row if there is no such kind.
-- lost counts whatever recovery ended, proposed.why speaks of those whose owner
-- was silent.  Percentiles are null where nothing was measured; proposed.lease_seconds is
-- the present one while there are fewer than 20 samples.
--
-- run_seconds is of attempts that their owner ended; a renewal gap is the
-- longest time between two signs of life of one attempt; wait is from when it
-- was due until it was claimed.
create or replace function interlock.kind_advice(
    p_tenant int, p_name text, p_recovery int)
returns table (doc text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_now  timestamptz := clock_timestamp();
    k      interlock.kind_versions;
    m      record;
    p      record;
begin
    select * into k from interlock.kind_row(p_tenant, p_name);
    if not found then
        return;
    end if;

    select count(*)::int as samples,
        extract(epoch from v_now - min(x.ended_at)) as window,
        (count(*) filter (where x.call = 'lost'))::int as lost,
        (count(*) filter (where x.call = 'lost'
                          and x.error = 'lease expired'))::int as silent_lost,
        (count(*) filter (where x.call = 'lost' and x.renewals = 0
                          and x.error = 'lease expired'))::int as mute,
        percentile_disc(array[0.5, 0.9, 0.99, 1]) within group (
            order by extract(epoch from x.ended_at - x.granted_at))
            filter (where x.call in ('complete', 'fail')) as run,
        percentile_disc(array[0.5, 0.9, 0.99, 1]) within group (
            order by x.max_gap_ms / 1000.0)
            filter (where x.max_gap_ms is not null) as gap,
        percentile_disc(array[0.5, 0.95, 0.99]) within group (
            order by x.waited_ms / 1000.0)
            filter (where x.waited_ms is not null) as wait,
        percentile_disc(0.99) within group (
            order by extract(epoch from x.ended_at - x.granted_at))
            filter (where x.renewals = 0
                    and x.call in ('complete', 'fail')) as silent
    into m
    from (select a.* from interlock.attempts a
          where a.tenant = p_tenant and a.kind = p_name
              and a.ended_at > v_now - interval '30 days'
              and a.call <> 'unclaim'
          order by a.ended_at desc limit 2000) x;

    select * into p from interlock.lease_advice(k, m.samples, m.silent_lost,
        m.mute, m.gap[3]::float8, m.silent::float8, p_recovery);

    return query select json_build_object(
        'kind', k.name,
        'samples', m.samples,
        'window_seconds', round(m.window),
        'run_seconds', json_build_object(
            'p50', round(m.run[1], 3), 'p90', round(m.run[2], 3),
            'p99', round(m.run[3], 3), 'max', round(m.run[4], 3)),
        'renewal_gap_seconds', json_build_object(
            'p50', round(m.gap[1], 3), 'p90', round(m.gap[2], 3),
            'p99', round(m.gap[3], 3), 'max', round(m.gap[4], 3)),
        'wait_seconds', json_build_object(
            'p50', round(m.wait[1], 3), 'p95', round(m.wait[2], 3),
            'p99', round(m.wait[3], 3)),
        'lost', m.lost,
        'recovery_goal_seconds', p_recovery,
        'proposed', json_build_object('lease_seconds', p.lease,
                                      'why', p.why),
        'current', json_build_object('lease_seconds', k.lease_seconds))::text;
end
$$;

-- lease_advice(k, samples, lost, mute, gap, silent, recovery): the lease that
-- the measurements speak for, and why; helper of kind_advice.  gap is the 99th
-- percentile of the longest renewal gaps, silent that of the run times of
-- attempts that ended without a renewal; in seconds, or null.  lost is how many
-- attempts ended by silence, mute how many of these never renewed.
--
-- A lease must outlast the silence of a worker that is well: three of its
-- renewal gaps (so that two renewals may fail), half as much again as an
-- attempt takes that needs no renewal.  How long a worker was silent whose
-- attempt was lost is not known, but that it was at least its lease: nothing
-- below the present lease is proposed where so many were lost without any
-- renewal that they are of the last percent.  A lost job is recovered at the
-- latest one lease and a sweep of a second later: as far as a recovery goal
-- leaves room, the lease takes it, for a longer one is safer.
create or replace function interlock.lease_advice(
    k interlock.kind_versions, p_samples int, p_lost int, p_mute int,
    p_gap float8, p_silent float8, p_recovery int, out lease int,
    out why text)
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_gap     int := ceil(3 * coalesce(p_gap, 0));
    v_silent  int := ceil(1.5 * coalesce(p_silent, 0));
    v_mute    int := case when p_mute * 100 > p_samples
                     then k.lease_seconds else 0 end;
    v_need    int := greatest(15, v_gap, v_silent, v_mute);
    v_goal    int := p_recovery - 1;
begin
    if p_samples < 20 then
        lease := k.lease_seconds;
        why := format('%s attempts were measured, too few to say anything',
                      p_samples);
        return;
    end if;

    why := case
        when v_need = v_gap and v_gap > 15
        then format('three times the renewal gap of %s s (p99), so that two '
            'renewals may fail', round(p_gap::numeric, 1))
        when v_need = v_silent and v_silent > 15
        then format('attempts that never renew run %s s (p99); half as much '
            'again', round(p_silent::numeric, 1))
        when v_need = v_mute
        then 'nothing speaks for less than the present lease'
        when p_lost > 0
        then 'no worker was silent for longer than 5 s, of those that were '
            'not lost'
        else 'no worker was silent for longer than 5 s' end;

    lease := least(v_need, 86400);
    if v_goal >= v_need then
        lease := least(v_goal, 86400);
        why := why || format('; up to %s s are needed, the recovery goal '
            'allows more', v_need);
    elsif v_goal < v_need then
        why := why || format('; the recovery goal of %s s would need workers '
            'that renew at least every %s s', p_recovery,
            greatest(1, v_goal / 3));
    end if;

    if p_lost > 0 then
        why := why || format('; %s of %s attempts were lost, %s of them '
            'without any renewal: their workers were silent for at least '
            'their lease, how long is not known', p_lost, p_samples, p_mute);
    end if;
end
$$;

revoke all on function interlock.lease_advice(interlock.kind_versions, int,
    int, int, float8, float8, int) from public;
revoke all on function interlock.kind_advice(int, text, int) from public;
grant execute on function interlock.kind_advice(int, text, int)
    to interlock_service;
