-- ticket_check(tenant, kind, work_key): who: interlockd, POST /v1/tickets.
-- Whether a press of a button with such a ticket could be admitted at all.
-- Locks: none.  Stores nothing: a ticket is known by its signature alone.
-- Answers one row; problem is null if it could.
-- Refuses: kind-unknown, field-invalid (a kind of look-ups),
-- work-key-mismatch, work-kind.
create or replace function interlock.ticket_check(
    p_tenant int, p_kind text, p_work_key text)
returns table (problem text, detail text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    k          interlock.kind_versions;
    v_problem  text;
    v_kind     text;
begin
    select * into k from interlock.kind_row(p_tenant, p_kind);

    v_problem := case
        when k.version is null then 'kind-unknown'
        when p_kind in ('result-check', 'effect-check') then 'field-invalid'
        when p_work_key !~ k.key_pattern then 'work-key-mismatch' end;
    if v_problem is not null then
        return query
        select v_problem, x.detail
        from interlock.submit_refusal(v_problem, p_kind, k.max_payload,
            k.key_template, 'button') x;
        return;
    end if;

    select x.kind into v_kind from interlock.works x
    where x.tenant = p_tenant and x.work_key = p_work_key;
    if v_kind <> p_kind then
        return query select 'work-kind'::text,
            format('this work key belongs to kind "%s"', v_kind);
        return;
    end if;

    return query select null::text, null::text;
end
$$;

revoke all on function interlock.ticket_check(int, text, text) from public;
grant execute on function interlock.ticket_check(int, text, text)
    to interlock_service;
