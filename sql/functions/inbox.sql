-- inbox.sql: what waits for a person, with what may be done about it, and who
-- looks after it.  What puts things in and takes them out: 01_inbox_set.sql.

-- inbox_what(state): the sort of thing that it is.
create or replace function interlock.inbox_what(p_state text) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when p_state in ('held', 'parked', 'failed') then 'job'
        when p_state in ('needs_human', 'unknown') then 'effect'
        when p_state = 'missing' then 'gap'
        when p_state = 'approval' then 'slot'
        when p_state = 'skips' then 'schedule'
        when p_state = 'queue_age' then 'queue'
        else p_state end
$$;

-- inbox_states(what, state): the states of that sort, or just that one; what
-- is null is not asked for.
create or replace function interlock.inbox_states(p_what text, p_state text)
returns text[]
language sql immutable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select coalesce(array_agg(s), '{}')
    from unnest(array['held', 'parked', 'failed', 'needs_human', 'unknown',
        'missing', 'approval', 'kind_paused', 'source_paused', 'skips',
        'queue_age']) s
    where (p_what is null or interlock.inbox_what(s) = p_what)
        and (p_state is null or s = p_state)
$$;

-- inbox_list(…): who: interlockd, GET /v1/inbox.
-- What waits for a person, the longest waiting first; those of an assignee,
-- of a sort (what), in a state, about a kind of jobs; what is null is not
-- asked for.
-- Locks: none.
-- Answers at most limit rows, each with the cursor from which the next page
-- goes on (time and id: what comes later moves no page).  A cursor that is
-- none gives no row.  doc: inbox_doc.
create or replace function interlock.inbox_list(
    p_tenant int, p_assignee text, p_what text, p_state text, p_kind text,
    p_limit int, p_cursor text)
returns table (doc text, cursor text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_now    timestamptz := clock_timestamp();
    v_limit  int := greatest(0, least(p_limit, 1000));
    v_since  timestamptz := '-infinity';
    v_id     text := '';
    v_rows   interlock.inbox[];
begin
    if p_cursor is not null then
        if p_cursor !~ '^\d{1,17}\..{1,200}$' then
            return;
        end if;
        v_since := interlock.time_of(split_part(p_cursor, '.', 1));
        v_id := substr(p_cursor, strpos(p_cursor, '.') + 1);
    end if;

    if p_assignee is not null then
        v_rows := array(
            select b from interlock.inbox b
            where b.tenant = p_tenant and b.assignee = p_assignee
                and (b.since, b.id) > (v_since, v_id) and b.since <= v_now
                and b.state = any (interlock.inbox_states(p_what, p_state))
                and (p_kind is null or b.kind = p_kind)
                and not interlock.inbox_righted(b)
            order by b.since, b.id limit v_limit);
    elsif p_kind is not null then
        v_rows := array(
            select b
            from unnest(interlock.inbox_states(p_what, p_state)) s
            cross join lateral (
                select x as b from interlock.inbox x
                where x.tenant = p_tenant and x.kind = p_kind
                    and x.state = s and (x.since, x.id) > (v_since, v_id)
                    and x.since <= v_now and not interlock.inbox_righted(x)
                order by x.since, x.id limit v_limit) y
            order by (b).since, (b).id limit v_limit);
    elsif p_what is not null or p_state is not null then
        v_rows := array(
            select b
            from unnest(interlock.inbox_states(p_what, p_state)) s
            cross join lateral (
                select x as b from interlock.inbox x
                where x.tenant = p_tenant and x.state = s
                    and (x.since, x.id) > (v_since, v_id)
                    and x.since <= v_now and not interlock.inbox_righted(x)
                order by x.since, x.id limit v_limit) y
            order by (b).since, (b).id limit v_limit);
    else
        v_rows := array(
            select b from interlock.inbox b
            where b.tenant = p_tenant and (b.since, b.id) > (v_since, v_id)
                and b.since <= v_now and not interlock.inbox_righted(b)
            order by b.since, b.id limit v_limit);
    end if;

    return query
    select interlock.inbox_doc(r.tenant, r.id),
        interlock.time_text(r.since) || '.' || r.id
    from unnest(v_rows) with ordinality as r (tenant, id, state, since, kind,
        schedule, work_key, assignee, due_at, n)
    order by r.n;
end
$$;

-- inbox_righted(b): a failed job whose work was done by a later one: nobody
-- need see to it any more (alert_scan_righted); the sweep takes it out.
create or replace function interlock.inbox_righted(b interlock.inbox)
returns boolean
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return b.state = 'failed' and exists (
        select from interlock.works w
        where w.tenant = b.tenant and w.work_key = b.work_key
            and w.published_at > b.since);
end
$$;

-- inbox_doc(tenant, id): {id, what, state, kind, schedule, work_key, job_id,
-- effect_id, gap_id (and its slot_at, business_date, subject), since, due,
-- assignee, why (in words), actions}.  An action: {name, label, what (will happen), method, path, body}; to the body
-- come requested_by and reason.  Null if it is not there.
create or replace function interlock.inbox_doc(p_tenant int, p_id text)
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_name    text := substr(p_id, strpos(p_id, ':') + 1);
    v_job     uuid;
    v_effect  uuid;
    v_why     text;
    g         interlock.gaps;
    b         interlock.inbox;
begin
    select * into b from interlock.inbox x
    where x.tenant = p_tenant and x.id = p_id;
    if not found then
        return null;
    end if;

    case interlock.inbox_what(b.state)
    when 'job' then
        v_job := v_name;
        v_why := interlock.inbox_why_job(p_tenant, v_job, b.state);
    when 'effect' then
        v_effect := v_name;
        select e.job_id, interlock.inbox_why_effect(e) into v_job, v_why
        from interlock.effects e
        where e.tenant = p_tenant and e.id = v_effect;
    when 'gap', 'slot' then
        select * into g from interlock.gaps x
        where x.tenant = p_tenant and x.id = v_name::uuid;
        v_why := g.why || ' (' || concat_ws(', ', g.schedule,
            interlock.ts(g.slot_at), nullif(g.subject, '')) || ')';
    else
        v_why := interlock.inbox_why_level(b, v_name);
    end case;

    return json_build_object('id', b.id,
        'what', interlock.inbox_what(b.state), 'state', b.state,
        'kind', b.kind, 'schedule', b.schedule, 'work_key', b.work_key,
        'job_id', v_job, 'effect_id', v_effect, 'gap_id', g.id,
        'slot_at', interlock.ts(g.slot_at),
        'business_date', g.business_date, 'subject', g.subject,
        'since', interlock.ts(b.since), 'due', interlock.ts(b.due_at),
        'assignee', b.assignee, 'why', v_why,
        'actions', interlock.inbox_actions(b, v_name))::text;
end
$$;

create or replace function interlock.inbox_why_job(
    p_tenant int, p_job uuid, p_state text)
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return (
        select case p_state
            when 'held' then 'it cannot go on by itself: ' || left(j.error,
                                                                   1000)
            when 'parked' then 'the line of its work key is full; if nobody '
                'lets it in, it expires at ' || interlock.ts(j.expire_at)
            else 'it failed after ' || j.attempts || case j.attempts
                when 1 then ' attempt: ' else ' attempts: ' end
                || left(j.error, 1000) end
        from interlock.jobs j
        where j.tenant = p_tenant and j.id = p_job);
end
$$;

create or replace function interlock.inbox_why_effect(e interlock.effects)
returns text
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select '"' || e.name || '": ' || case e.state
        when 'unknown' then 'since ' || interlock.ts(e.unknown_since)
            || ' it is not known whether it happened, and its look-ups have '
            'not settled it in the time that they have'
        else interlock.effect_why(e) end
$$;

-- inbox_why_level(b, name): of kinds, sources and schedules.
create or replace function interlock.inbox_why_level(
    b interlock.inbox, p_name text)
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    if b.state in ('kind_paused', 'source_paused') then
        return (
            select case p.what when 'kind' then 'none of its jobs is claimed'
                else 'its requests are refused' end || ' until somebody '
                'resumes it; paused by ' || p.requested_by || ': ' || p.reason
            from interlock.pauses p
            where p.tenant = b.tenant and p.name = p_name
                and p.what = split_part(b.state, '_', 1));
    elsif b.state = 'skips' then
        return (
            select 'it has skipped ' || s.skips || ' slots in a row'
            from interlock.schedules s
            where s.tenant = b.tenant and s.name = p_name);
    end if;

    return (
        select 'a job that could run has waited for longer than '
            || v.alert_at || ' s (alert_at)'
        from interlock.kind_row(b.tenant, p_name) v);
end
$$;

-- inbox_act(name, label, what, path, body): one action.
create or replace function interlock.inbox_act(
    p_name text, p_label text, p_what text, p_path text, p_body json)
returns json
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select json_build_object('name', p_name, 'label', p_label,
        'what', p_what, 'method', 'POST', 'path', p_path,
        'body', coalesce(p_body, '{}'))
$$;

-- inbox_actions(b, name): what a person may do about it.
create or replace function interlock.inbox_actions(
    b interlock.inbox, p_name text)
returns json
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_acts  json[];
begin
    v_acts := case interlock.inbox_what(b.state)
        when 'job' then interlock.inbox_job_acts(b, '/v1/jobs/' || p_name
            || '/decide') || case b.state when 'failed' then array[
            interlock.inbox_act('dismiss', 'Leave it failed', 'Nobody need '
                'see to it any more. The job stays as it is.', '/v1/inbox/'
                || b.id || '/dismiss', null)] end
        when 'effect' then interlock.inbox_effect_acts(b, '/v1/effects/'
            || p_name)
        when 'gap' then array[
            interlock.inbox_act('approve', 'Run it now', 'The work of its '
                'slot is run now.', '/v1/gaps/' || p_name || '/approve',
                null),
            interlock.inbox_act('dismiss', 'Leave it undone', 'The slot '
                'stays without its work, and is looked at no more.',
                '/v1/gaps/' || p_name || '/dismiss', null)]
        when 'slot' then array[
            interlock.inbox_act('approve', 'Approve', 'The work of this '
                'late slot is run now.', '/v1/gaps/' || p_name || '/approve',
                null),
            interlock.inbox_act('dismiss', 'Do not run it', 'The slot is '
                'skipped.', '/v1/gaps/' || p_name || '/dismiss', null)]
        when 'kind_paused' then array[
            interlock.inbox_act('resume', 'Resume', 'Jobs of the kind are '
                'claimed again.', '/v1/kinds/' || p_name || '/resume', null)]
        when 'source_paused' then array[
            interlock.inbox_act('resume', 'Resume', 'Requests from the '
                'source are taken again.', '/v1/sources/' || p_name
                || '/resume', null)]
        when 'schedule' then array[
            interlock.inbox_act('pause', 'Pause', 'None of its slots comes '
                'up until it is resumed.', '/v1/schedules/' || p_name
                || '/pause', null)]
        else array[
            interlock.inbox_act('pause', 'Pause', 'None of its jobs is '
                'claimed until it is resumed.', '/v1/kinds/' || p_name
                || '/pause', null)] end;

    return array_to_json(v_acts || interlock.inbox_act('assign', 'Assign',
        'Says who looks after it, and until when.', '/v1/inbox/'
        || interlock.path_encode(b.id) || '/assign',
        json_build_object('assignee', b.assignee)));
end
$$;

create or replace function interlock.inbox_job_acts(
    b interlock.inbox, p_path text)
returns json[]
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select array_agg(interlock.inbox_act(a.name, a.label, a.what, p_path,
        json_build_object('action', a.name)) order by a.n)
    from (values
        (1, 'retry', 'Run again', array['held', 'failed'], 'The same job is '
            'queued again, with all attempts of its policy.'),
        (2, 'release', 'Go on', array['held'], 'The job is queued again; '
            'its last attempt does not count.'),
        (3, 'release', 'Let in', array['parked'], 'The job comes into the '
            'line of its work key now, before the others that are parked.'),
        (4, 'succeed', 'Done already', array['held', 'failed'], 'The job '
            'has succeeded, with an empty result: its work is done.'),
        (5, 'fail', 'Give up', array['held', 'parked'], 'The job fails, for '
            'the reason you give.')) a (n, name, label, states, what)
    where b.state = any (a.states)
$$;

create or replace function interlock.inbox_effect_acts(
    b interlock.inbox, p_path text)
returns json[]
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_acts  json[];
begin
    v_acts := array[
        interlock.inbox_act('happened', 'It happened', 'The effect is '
            'confirmed: it is not sent again.', p_path || '/resolve',
            '{"outcome":"happened"}'),
        interlock.inbox_act('not_happened', 'It did not happen', 'The effect '
            'has failed: its job may send it anew.', p_path || '/resolve',
            '{"outcome":"not_happened"}'),
        interlock.inbox_act('send_again', 'Send again', 'It is sent again, '
            'under the same key while its provider honours that.',
            p_path || '/resolve', '{"outcome":"send_again"}')];

    perform from interlock.effects e, interlock.effect_kind_row(e.tenant,
        e.kind) k
    where e.tenant = b.tenant and e.id = substr(b.id, 8)::uuid
        and k.lookup is not null;
    if found then
        v_acts := interlock.inbox_act('check', 'Look now', 'The provider is '
            'asked whether it happened.', p_path || '/check', null)
            || v_acts;
    end if;

    return v_acts;
end
$$;

-- inbox_assign(…): who: interlockd, POST /v1/inbox/{id}/assign.
-- Says who looks after it (null or '': nobody any more) and until when (null:
-- no time).  Of a job that is its own assignee, as job_decide has it.
-- p_call: see action_made.
-- Locks: of a job its work (FOR NO KEY UPDATE); the row in inbox.
-- Answers: one row; problem null and doc the item.  Leaves a row in actions.
-- Refuses: field-invalid (no name); not-found (there never was such a thing);
-- inbox-settled (it waits for nobody any more: detail says so).
create or replace function interlock.inbox_assign(
    p_tenant int, p_id text, p_assignee text, p_due timestamptz,
    p_requested_by text, p_reason text, p_token_id bigint,
    p_token_name text, p_call uuid default null)
returns table (problem text, detail text, doc text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_name  text := substr(p_id, strpos(p_id, ':') + 1);
    v_who   text := nullif(btrim(p_assignee), '');
    b       interlock.inbox;
begin
    perform set_config('synchronous_commit', 'on', true);

    if interlock.is_blank(p_requested_by) then
        return query select 'field-invalid',
            '"requested_by" is missing: who says so', null::text;
        return;
    end if;

    b := interlock.inbox_hold(p_tenant, p_id);
    if b.id is null then
        return query select x.problem, x.detail, null::text
        from interlock.inbox_gone(p_tenant, p_id) x;
        return;
    end if;

    if not interlock.action_made(p_tenant, p_call) then
        if interlock.inbox_what(b.state) = 'job' then
            -- (the trigger brings it into the inbox)
            update interlock.jobs j set assignee = v_who
            where j.tenant = p_tenant and j.id = v_name::uuid;
        end if;

        update interlock.inbox x set assignee = v_who, due_at = p_due
        where x.tenant = p_tenant and x.id = p_id;

        insert into interlock.actions (tenant, what, target, token_id,
            token_name, requested_by, reason, call_id, detail, work_key)
        values (p_tenant, 'inbox_assign', v_name, p_token_id, p_token_name,
            p_requested_by, p_reason, p_call, json_build_object('id', p_id,
                'state', b.state, 'assignee', v_who,
                'due', interlock.ts(p_due), 'was', b.assignee), b.work_key);
    end if;

    return query select null::text, null::text,
        interlock.inbox_doc(p_tenant, p_id);
end
$$;

-- inbox_hold(tenant, id): locks it, with its job's work; all null if it is
-- not there (any more).
create or replace function interlock.inbox_hold(p_tenant int, p_id text)
returns interlock.inbox
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    b  interlock.inbox;
begin
    if p_id like 'job:%' then
        perform from interlock.works w
        where w.tenant = p_tenant and w.work_key = (
            select x.work_key from interlock.inbox x
            where x.tenant = p_tenant and x.id = p_id)
        for no key update;
    end if;

    select * into b from interlock.inbox x
    where x.tenant = p_tenant and x.id = p_id
        and x.since <= clock_timestamp()
    for no key update;

    if found and interlock.inbox_righted(b) then
        b := null;
    end if;
    return b;
end
$$;

-- inbox_dismiss(…): who: interlockd, POST /v1/inbox/{id}/dismiss.
-- A failed job that is to stay so: nobody need see to it any more, and what
-- alerts were told of it is over.  The job itself stays as it is.
-- p_call: see action_made.
-- Locks: its work (FOR NO KEY UPDATE); the row in inbox.
-- Answers: one row; problem null and doc null.  Leaves a row in actions.
-- Refuses: field-invalid (no name, no reason); not-found; inbox-settled;
-- decision-not-possible (anything but a failed job goes by what is decided
-- about it).
create or replace function interlock.inbox_dismiss(
    p_tenant int, p_id text, p_requested_by text, p_reason text,
    p_token_id bigint, p_token_name text, p_call uuid default null)
returns table (problem text, detail text, doc text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    b  interlock.inbox;
begin
    perform set_config('synchronous_commit', 'on', true);

    detail := interlock.who_trouble(p_requested_by, p_reason);
    if detail is not null then
        return query select 'field-invalid', detail, null::text;
        return;
    end if;

    b := interlock.inbox_hold(p_tenant, p_id);
    if interlock.action_made(p_tenant, p_call) then
        return query select null::text, null::text, null::text;
        return;
    elsif b.id is null then
        return query select x.problem, x.detail, null::text
        from interlock.inbox_gone(p_tenant, p_id) x;
        return;
    elsif b.state <> 'failed' then
        return query select 'decision-not-possible', 'only a failed job may '
            'be left as it is; see its actions', null::text;
        return;
    end if;

    perform interlock.inbox_over(p_tenant, p_id);
    perform interlock.alert_let_go(p_tenant, b.kind, b.work_key, p_id);

    insert into interlock.actions (tenant, what, target, token_id,
        token_name, requested_by, reason, call_id, detail, work_key)
    values (p_tenant, 'inbox_dismiss', substr(p_id, 5), p_token_id,
        p_token_name, p_requested_by, p_reason, p_call,
        json_build_object('id', p_id, 'state', b.state), b.work_key);

    return query select null::text, null::text, null::text;
end
$$;

-- alert_let_go(tenant, kind, work_key, subject): what alerts were told of a
-- failed job is over, though it has failed.
create or replace function interlock.alert_let_go(
    p_tenant int, p_kind text, p_key text, p_subject text)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    perform from interlock.alerts a where a.tenant = p_tenant limit 1;
    if not found then
        return;
    end if;

    insert into interlock.alert_queue (tenant, condition, opened, subject,
        kind, work_key, info)
    select p_tenant, c, false, p_subject, p_kind, p_key, json_build_object(
        'job_id', substr(p_subject, 5), 'why', 'somebody left it as it is')
    from unnest(array['failed', 'check_exhausted']) c;
end
$$;

-- inbox_gone(tenant, id): why it is not there: it was settled, or is none.
create or replace function interlock.inbox_gone(
    p_tenant int, p_id text, out problem text, out detail text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_what  text := split_part(p_id, ':', 1);
    v_name  text := substr(p_id, strpos(p_id, ':') + 1);
    v_uuid  uuid;
    v_now   text;
begin
    if v_name ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
        v_uuid := v_name;
    end if;

    if v_what = 'job' then
        select 'the job is ' || j.status into v_now from interlock.jobs j
        where j.tenant = p_tenant and j.id = v_uuid;
    elsif v_what = 'effect' then
        select 'the effect is ' || e.state into v_now
        from interlock.effects e
        where e.tenant = p_tenant and e.id = v_uuid;
    elsif v_what = 'gap' then
        select 'the gap is ' || g.state into v_now from interlock.gaps g
        where g.tenant = p_tenant and g.id = v_uuid;
    elsif v_what in ('kind', 'queue') then
        select case v_what when 'kind' then 'the kind is not paused'
            else 'its queue is not too old' end into v_now
        from interlock.kinds k
        where k.tenant = p_tenant and k.name = v_name;
    elsif v_what = 'schedule' then
        select 'the schedule does not skip its slots' into v_now
        from interlock.schedules s
        where s.tenant = p_tenant and s.name = v_name;
    elsif v_what = 'source' then
        select 'the source is not paused' into v_now
        from interlock.actions a
        where a.tenant = p_tenant and a.target = v_name
            and a.what = 'source_resume'
        limit 1;
    end if;

    problem := case when v_now is null then 'not-found'
        else 'inbox-settled' end;
    detail := coalesce(v_now || ': nobody need see to it any more',
                       'there is nothing of that id');
end
$$;

revoke all on function interlock.inbox_what(text) from public;
revoke all on function interlock.inbox_states(text, text) from public;
revoke all on function interlock.inbox_righted(interlock.inbox) from public;
revoke all on function interlock.inbox_doc(int, text) from public;
revoke all on function interlock.inbox_why_job(int, uuid, text) from public;
revoke all on function interlock.inbox_why_effect(interlock.effects)
    from public;
revoke all on function interlock.inbox_why_level(interlock.inbox, text)
    from public;
revoke all on function interlock.inbox_act(text, text, text, text, json)
    from public;
revoke all on function interlock.inbox_actions(interlock.inbox, text)
    from public;
revoke all on function interlock.inbox_job_acts(interlock.inbox, text)
    from public;
revoke all on function interlock.inbox_effect_acts(interlock.inbox, text)
    from public;
revoke all on function interlock.inbox_hold(int, text) from public;
revoke all on function interlock.inbox_gone(int, text) from public;
revoke all on function interlock.alert_let_go(int, text, text, text)
    from public;
revoke all on function interlock.inbox_dismiss(int, text, text, text,
    bigint, text, uuid) from public;
revoke all on function interlock.inbox_list(int, text, text, text, text,
    int, text) from public;
revoke all on function interlock.inbox_assign(int, text, text, timestamptz,
    text, text, bigint, text, uuid) from public;
grant execute on function interlock.inbox_list(int, text, text, text, text,
    int, text) to interlock_service;
grant execute on function interlock.inbox_assign(int, text, text,
    timestamptz, text, text, bigint, text, uuid) to interlock_service;
grant execute on function interlock.inbox_dismiss(int, text, text, text,
    bigint, text, uuid) to interlock_service;
