-- effect_kinds.sql: what may be said of a provider.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

create function pg_temp.put(p_name text, p_doc text) returns text
language sql as $$
    select coalesce(problem || ': ' || detail, 'ok')
    from interlock.effect_kind_put(t.demo(), p_name, p_doc)
$$;

select is(pg_temp.put('pay', '{}'), 'ok', 'all defaults');
select is((select doc::jsonb from interlock.effect_kind_get(t.demo(), 'pay')),
    '{"name":"pay","version":1,"idempotent":false,"key_window":86400,
      "send_deadline":10,"lookup":null,"authoritative":false,
      "settle_after":600,"check_delay":5,"check_backoff":10,"max_checks":10,
      "on_exhausted":"needs_human","evidence":null,"outcome_map":null,
      "key_header":"Idempotency-Key"}', 'the defaults');
select is(pg_temp.put('pay', '{"idempotent":true,"key_window":60}'), 'ok',
    'a change');
select is(pg_temp.put('pay', '{"key_window":60,"name":"pay","version":2}'),
    'ok', 'what is there already, as GET shows it');
select is((select doc::json ->> 'version'
    from interlock.effect_kind_get(t.demo(), 'pay')), '2',
    'the version grows with what changes only');
select is(pg_temp.put('pay', '{"version":1}'),
    'field-invalid: "version" is not the present one (2)', 'a stale version');
select is(pg_temp.put('Pay', '{}'), 'field-invalid: an effect kind''s name '
    'has 1 to 64 of a-z, 0-9, ".", "_", "-", the first a letter or digit',
    'a name that is none');
select is(pg_temp.put('new', '{"version":1}'),
    'field-invalid: "version" is not the present one (none)',
    'a version of what is not there');

select is(pg_temp.put('x', d), want, d) from (values
    ('[]', 'json-invalid: an effect kind is a JSON object'),
    ('{"color":1}', 'unknown-field: an effect kind has no field "color"'),
    ('{"idempotent":1}', 'field-invalid: "idempotent" must be true or false'),
    ('{"idempotent":null}', 'field-invalid: "idempotent" may not be null'),
    ('{"send_deadline":0}',
     'field-invalid: "send_deadline" must be between 1 and 3600'),
    ('{"send_deadline":"5"}',
     'field-invalid: "send_deadline" must be a whole number'),
    ('{"send_deadline":5,"send_deadline":6}',
     'field-invalid: "send_deadline" occurs twice'),
    ('{"idempotent":true,"key_window":10}', 'field-invalid: "key_window" '
     'must be longer than send_deadline (10)'),
    ('{"authoritative":true}', 'field-invalid: "authoritative" is said of a '
     'look-up, and there is none'),
    ('{"on_exhausted":"failed"}', 'field-invalid: "on_exhausted" must be one '
     'of needs_human, keep_checking'),
    ('{"key_header":"Host"}', 'field-invalid: "key_header" must be the name '
     'of a header that is free for a key'),
    ('{"key_header":"Interlock-Effect"}', 'field-invalid: "key_header" must '
     'be the name of a header that is free for a key'),
    ('{"key_header":"a b"}', 'field-invalid: "key_header" must be the name '
     'of a header that is free for a key'),
    ('{"outcome_map":{"200":"fine"}}', 'field-invalid: "outcome_map" must '
     'say for "200" one of confirmed, failed, retry, unknown'),
    ('{"outcome_map":{"6xx":"failed"}}', 'field-invalid: "outcome_map" has '
     '"6xx", which is neither a status (429) nor a class (4xx), nor connect, '
     'timeout, reset or truncated'),
    ('{"lookup":{"type":"smoke"}}', 'field-invalid: "lookup": "type" must '
     'be one of http, worker, none'),
    ('{"evidence":{"source":"stripe"}}', 'field-invalid: "evidence" needs '
     '"match", one of effect_id, idempotency_key, provider_ref with a '
     'pointer to it'),
    ('{"evidence":{"source":"api","match":{"effect_id":"/a"}}}',
     'field-invalid: "evidence" needs "source", the source at which the '
     'provider''s webhooks come in'),
    ('{"evidence":{"source":"stripe","match":{"effect_id":"/a"}}}',
     'field-invalid: "evidence" needs "confirmed" or "failed": which events '
     'say so'),
    ('{"evidence":{"source":"stripe","match":{"effect_id":"/a"},'
     '"failed":{"pointer":"/type"}}}', 'field-invalid: "evidence" needs in '
     '"failed" a "pointer" and "equals", an array of 1 to 20 values'),
    ('{"evidence":{"source":"stripe","match":{"effect_id":"a"},'
     '"failed":{"pointer":"/type","equals":["x"]}}}', 'field-invalid: '
     '"evidence" needs "match", one of effect_id, idempotency_key, '
     'provider_ref with a pointer to it')
) v (d, want);
select is_empty($$select * from interlock.effect_kinds where name = 'x'$$,
    'what was refused is not there');

select is(pg_temp.put('ok', '{"lookup":{"type":"none"},"outcome_map":'
    '{"202":"confirmed","5xx":"retry"},"evidence":[{"source":"stripe",'
    '"match":{"effect_id":"/m"},"failed":{"pointer":"/t","equals":["x"]}}]}'),
    'ok', 'all of it');
select is((select doc::json ->> 'lookup'
    from interlock.effect_kind_get(t.demo(), 'ok')), null,
    'a look-up of type none is none');
select results_eq(
    'select name from interlock.effect_kind_list(t.demo())',
    $$values ('ok'), ('pay')$$, 'the list');

select results_eq(
    $$select problem, detail from interlock.effect_kind_delete(t.demo(),
      'nix')$$, $$values ('effect-kind-unknown', 'no effect kind "nix"')$$,
    'deleting what is not there');
select is((select problem from interlock.effect_kind_delete(t.demo(),
    'pay')), null, 'deleting');
select is_empty(
    $$select * from interlock.effect_kind_get(t.demo(), 'pay')$$, 'is gone');
select is(pg_temp.put('pay', '{}'), 'ok', 'made again');
select results_eq(
    $$select doc::json ->> 'version', doc::json ->> 'idempotent'
      from interlock.effect_kind_get(t.demo(), 'pay')$$,
    $$values ('3', 'false')$$, 'from the defaults, under a later version');
select is_empty($$select * from interlock.effect_kind_get(
    interlock.tenant_create('other'), 'pay')$$, 'tenants are apart');

select * from finish();
rollback;
