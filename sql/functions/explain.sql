-- explain(tenant, kind, doc): who: interlockd, POST /v1/kinds/{name}/explain.
-- What a sample submission would get just now, and why; stores nothing (it
-- is STABLE, so the server refuses it any write), takes no fence, no lock and
-- no number.  It decides by the same functions as submit.
-- doc is the body of a submission (kind may be left out), with
-- idempotency_key and source (default api) beside.
-- Answers: one row, doc {decision, code, problem?, reason?, why, kind,
-- kind_version, work_key, policy, status, place, active_job_id, job_id,
-- superseded_job_id, revoked_job_id, retry_after, groups, order_key, ...}.
-- A refusal that submit would give is an answer here; problem is set only if
-- the sample itself cannot be read.
-- Refuses: kind-unknown, json-invalid, unknown-field, field-invalid,
-- work-key-incomplete, work-key-invalid.
create or replace function interlock.explain(
    p_tenant int, p_kind text, p_doc text)
returns table (problem text, detail text, doc text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    k         interlock.kind_versions;
    s         interlock.submission;
    d         interlock.decision;
    f         interlock.requests;
    c         record;
    v_order   timestamptz;
    v_room    bigint;
    v_full    text := 'kind_full';
    v_bound   bigint;
    v_now     timestamptz := clock_timestamp();
    v_groups  text[];
    v_by      text;
    v_place   text;
    v_paused  json := interlock.pause_doc(p_tenant, 'kind', p_kind);
begin
    select * into k from interlock.kind_row(p_tenant, p_kind);
    if not found then
        return query select 'kind-unknown', format('no kind "%s"', p_kind),
            null::text;
        return;
    end if;

    select * into c from interlock.explain_sample(p_doc, p_kind);
    if c.problem is not null then
        return query select c.problem, c.detail, null::text;
        return;
    end if;
    s := c.s;
    s.tenant := p_tenant;
    s.kind := p_kind;
    s.kind_version := k.version;

    -- As submit's first look.
    d.problem := case
        when interlock.pause_doc(p_tenant, 'source', s.source) is not null
            then 'source-paused'
        when s.fresh and not k.allow_fresh then 'fresh-not-allowed'
        when s.priority not between -100 and 100 then 'field-invalid'
        when s.work_key !~ k.key_pattern then 'work-key-mismatch'
        when octet_length(s.payload) > k.max_payload then 'body-too-large'
        when p_kind in ('result-check', 'effect-check') then 'field-invalid'
        end;

    if s.idem is not null and d.problem is distinct from 'source-paused' then
        select q.* into f
        from interlock.idempotency i
        join interlock.requests q
            on q.tenant = i.tenant and q.id = i.request_id
        where i.tenant = p_tenant and i.source = s.source
            and i.key = s.idem
            and (i.expires_at > v_now
                 or interlock.request_open(i.tenant, i.request_id));
    end if;

    if f.id is not null then
        d := null;
        d.decision := 'duplicate';
        d.code := f.code;
        d.job_id := f.job_id;
        d.status := f.status;
    elsif d.problem is not null then
        select x.code, x.detail, x.retry_after
        into d.code, d.detail, d.retry_after
        from interlock.submit_refusal(d.problem, p_kind, k.max_payload,
            k.key_template, s.source) x;
    else
        v_room := interlock.queue_look(p_tenant, p_kind, k.max_queued);
        select t.max_queued into v_bound
        from interlock.tenants t where t.id = p_tenant;
        if v_bound is not null then
            v_bound := interlock.queue_look(p_tenant, '', v_bound);
            if v_bound < v_room then
                v_room := v_bound;
                v_full := 'tenant_full';
            end if;
        end if;
        d := interlock.submit_decide(s, k, v_room, v_full);
    end if;

    if d.code = 202 and f.id is null then
        v_groups := interlock.job_groups(p_tenant, k, s.work_key);
        v_place := d.place;
        if d.status = 'queued' and v_place is null then
            v_by := interlock.groups_busy(p_tenant, v_groups);
            v_place := case when s.run_after > v_now then 'delayed'
                       when v_by is not null then 'limited'
                       else 'ready' end;
        end if;
        select x.order_key into v_order
        from interlock.order_of(k, p_tenant, s.work_key,
            coalesce(s.priority, k.priority), v_now, s.deadline) x;
    end if;

    return query select null::text, null::text, json_build_object(
        'decision', d.decision,
        'code', d.code,
        'problem', d.problem,
        'reason', d.reason,
        'why', interlock.explain_why(d, k, v_place, v_by)
            || case when v_place is not null and v_paused is not null
               then format('; the claims of its kind are paused since %s, '
                   'by %s: %s', v_paused ->> 'since',
                   v_paused ->> 'requested_by', v_paused ->> 'reason')
               else '' end,
        'kind', k.name,
        'kind_version', k.version,
        'work_key', s.work_key,
        'policy', k.overlap,
        'paused', v_paused,
        'status', d.status,
        'place', v_place,
        'job_id', d.job_id,
        'active_job_id', d.active,
        'superseded_job_id', d.supersede,
        'revoked_job_id', d.revoke,
        'retry_after', d.retry_after,
        'limits', coalesce(to_json(v_groups), '[]'::json),
        'order_key', case when v_place is not null
            then interlock.ts(v_order) end,
        'protects', k.protects)::text;
end
$$;

-- explain_sample(doc, kind): reads a sample submission; helper of explain.
-- payload keeps its bytes as they stand in doc.
create or replace function interlock.explain_sample(
    p_doc text, p_kind text, out problem text, out detail text,
    out s interlock.submission)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_json  json;
    v_type  text;
    v_text  text;
    v_seen  text[] := '{}';
    r       record;
begin
    v_json := interlock.json_object_of(p_doc);

    if v_json is null then
        problem := 'json-invalid';
        detail := 'a sample is the JSON object of a submission';
        return;
    end if;

    s.source := 'api';
    s.fresh := false;
    problem := 'field-invalid';

    for r in select e.key, e.value from json_each(v_json) e loop
        v_type := json_typeof(r.value);
        v_text := r.value #>> '{}';

        if r.key = any (v_seen) then
            detail := format('"%s" occurs twice', left(r.key, 64));
            return;
        end if;
        v_seen := v_seen || r.key;

        if r.key = 'kind' then
            if v_text is distinct from p_kind then
                detail := '"kind" must be the name in the path';
                return;
            end if;
        elsif r.key = 'work_key' then
            select x.problem, x.detail, x.work_key
            into problem, detail, s.work_key
            from interlock.explain_key(r.value) x;
            if problem is not null then
                return;
            end if;
            problem := 'field-invalid';
        elsif r.key = 'payload' then
            s.payload := convert_to(r.value::text, 'UTF8');
        elsif r.key in ('version', 'priority') then
            if v_type = 'null' then
                null;
            elsif v_type <> 'number'
                or v_text !~ '^-?(0|[1-9][0-9]{0,17})$'
            then
                detail := format('"%s" must be a whole number', r.key);
                return;
            elsif r.key = 'version' then
                s.version := v_text::bigint;
            elsif v_text::bigint between -1000000 and 1000000 then
                s.priority := v_text::int;
            else
                s.priority := 1000000;
            end if;
        elsif r.key in ('run_after', 'deadline') then
            if v_type <> 'null' and (v_type <> 'string'
                or not interlock.is_rfc3339(v_text))
            then
                detail := format('"%s" must be a time (RFC 3339)', r.key);
                return;
            elsif r.key = 'run_after' then
                s.run_after := v_text::timestamptz;
            else
                s.deadline := v_text::timestamptz;
            end if;
        elsif r.key = 'fresh' then
            if v_type <> 'boolean' then
                detail := '"fresh" must be true or false';
                return;
            end if;
            s.fresh := v_text::boolean;
        elsif r.key in ('idempotency_key', 'source', 'requested_by',
                        'reason')
        then
            if v_type = 'null' then
                continue;
            elsif v_type <> 'string' or length(v_text) > 255
                or v_text = ''
            then
                detail := format('"%s" must be a string of 1 to 255 '
                                 'characters', r.key);
                return;
            end if;
            if r.key = 'idempotency_key' then
                s.idem := v_text;
            elsif r.key = 'source' then
                s.source := v_text;
            end if;
        else
            problem := 'unknown-field';
            detail := format('a submission has no field "%s"',
                             left(r.key, 64));
            return;
        end if;
    end loop;

    if s.work_key is null then
        detail := '"work_key" is missing';
        return;
    end if;

    problem := null;
end
$$;

-- explain_key(json): a work key as the API takes it: a string as it stands,
-- or an array of parts, percent-encoded ("%", ":", controls and space) and
-- joined by ":".
create or replace function interlock.explain_key(
    p_key json, out problem text, out detail text, out work_key text)
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_part  text;
    v_out   text[] := '{}';
begin
    problem := 'work-key-invalid';

    if json_typeof(p_key) = 'string' then
        work_key := p_key #>> '{}';
        if work_key ~ '[[:cntrl:] ]' or work_key ~ '%(?![0-9A-Fa-f]{2})'
        then
            detail := 'a work key has no space or control character, and '
                'after "%" two hex digits';
            return;
        end if;
    elsif json_typeof(p_key) = 'array'
        and not exists (select from json_array_elements(p_key) x
                        where json_typeof(x) not in ('string', 'number'))
    then
        for v_part in select x from json_array_elements_text(p_key) x loop
            v_out := v_out || (
                select coalesce(string_agg(case
                    when c.c ~ '[[:cntrl:] %:]' then (
                        select string_agg('%' || upper(lpad(to_hex(
                            get_byte(convert_to(c.c, 'UTF8'), i)), 2, '0')),
                            '')
                        from generate_series(0, octet_length(convert_to(
                            c.c, 'UTF8')) - 1) i)
                    else c.c end, '' order by c.n), '')
                from regexp_split_to_table(v_part, '')
                    with ordinality c (c, n));
        end loop;
        work_key := array_to_string(v_out, ':');
    else
        detail := '"work_key" must be a string or an array of parts';
        return;
    end if;

    if work_key = '' or '' = any (string_to_array(work_key, ':')) then
        problem := 'work-key-incomplete';
        detail := 'a part of the work key is empty';
    elsif octet_length(work_key) > 2048 or exists (
        select from unnest(string_to_array(work_key, ':')) x
        where octet_length(x) > 512)
    then
        detail := 'a work key has at most 2048 bytes, a part 512';
    else
        problem := null;
    end if;
end
$$;

-- explain_why(d, k, place, by): the decision as a sentence.
create or replace function interlock.explain_why(
    d interlock.decision, k interlock.kind_versions, p_place text,
    p_by text)
returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when d.decision = 'duplicate'
            then 'this idempotency key was used: its first answer is given '
                'again (another body under it would be 422, or the first '
                'wins at a provider''s location)'
        when d.detail is not null then d.detail
        when d.decision = 'completed'
            then 'when_completed is return and there is a result'
        when d.reason = 'same_work' then 'the same work is under way'
        when d.reason = 'older_version'
            then 'a higher version of this work was admitted'
        when d.reason = 'work_active'
            then 'overlap skip: work of this key is active'
        when d.reason = 'already_waiting'
            then 'overlap buffer_first: one is waiting already'
        when d.reason = 'active_ending'
            then 'the active job is asked to end; this one waits for that'
        when d.reason = 'effects_started'
            then 'overlap replace, but the running job has begun effects: '
                'this one waits for its end'
        when d.reason in ('active_checking', 'active_held')
            then format('overlap replace, but what became of the active job '
                'is not known yet (%s): this one waits for that',
                substr(d.reason, 8))
        when d.decision = 'parked'
            then format('overlap buffer_all: %s are waiting (max_waiting); '
                'let in when there is room', k.max_waiting)
        when d.decision = 'buffered'
            then format('overlap %s: waits for the active job%s', k.overlap,
                case when d.supersede is not null
                    then ', in place of the one that waited' else '' end)
        when d.decision = 'replaced' and d.revoke is not null
            then format('overlap replace: the running job is revoked; this '
                'one starts when it yields, at the latest in %s s',
                k.cancel_grace)
        when d.decision = 'replaced'
            then 'overlap replace: takes the place of the job that waited'
        when d.active is not null
            then 'overlap allow: runs beside the active job'
        else 'nothing of this work key is active' end
        || case when p_place = 'limited'
               then format('; limit %s has no room now', p_by)
           when p_place = 'delayed' then '; not before run_after'
           else '' end
$$;

revoke all on function interlock.explain(int, text, text) from public;
revoke all on function interlock.explain_sample(text, text) from public;
revoke all on function interlock.explain_key(json) from public;
revoke all on function interlock.explain_why(interlock.decision,
    interlock.kind_versions, text, text) from public;
grant execute on function interlock.explain(int, text, text)
    to interlock_service;
