-- check_spec.sql: what a look-up may say, and what is wrong with it.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

create function pg_temp.trouble(p_spec text, p_for text default 'job')
returns text language sql as $$
    select interlock.check_spec_trouble(p_spec::json, p_for, '{site,date}')
$$;

-- A good one, changed at one place by each row below.
create temp table good (spec jsonb);
insert into good values ('{"type":"http","method":"GET",
    "url":"https://reports.example/v1/{site}/{date}?key={work_key}",
    "headers":{"Authorization":"@reports","Accept":"application/json",
        "Idempotency-Key":"{job_id}"},
    "found":{"status":[200],"pointer":"/state","equals":["done",1,true]},
    "not_found":{"status":[200,404],"pointer":"/items/0","missing":true},
    "ref_pointer":"/id","result_pointer":"","timeout":5,"delay":0,
    "backoff":5,"max_backoff":60,"max_checks":4,"on_exhausted":"hold"}');

select is(pg_temp.trouble((select spec::text from good)), null,
    'a full one is good');
select is(pg_temp.trouble('{"type":"worker","delay":3}'), null,
    'so is a worker''s');
select is(pg_temp.trouble('{"type":"none"}', 'effect'), null,
    'and none, for effects');
select is(pg_temp.trouble('{"type":"http","method":"POST",
    "url":"http://[2001:db8::1]:8080","body":"{\"q\": \"{target}\"}",
    "found":{"status":[200]},"not_found":{"status":[404]}}', 'effect'), null,
    'an address, a body');

create temp table bad (what text, patch text, sentence text);
insert into bad values
    ('type', '{"type":"magic"}', '"type" must be one of http, worker'),
    ('none', '{"type":"none"}', '"type" must be one of http, worker'),
    ('unknown', '{"follow":true}', '"follow" is not a field of a look-up'),
    ('scheme', '{"url":"file:///etc/passwd"}',
     '"url" must begin with https:// or http://'),
    ('gopher', '{"url":"gopher://reports.example/"}',
     '"url" must begin with https:// or http://'),
    ('user', '{"url":"https://reports.example@10.0.0.1/"}',
     '"url" may not have a user or password'),
    ('fragment', '{"url":"https://reports.example#@10.0.0.1/"}',
     '"url" may not have a fragment or a backslash'),
    ('backslash', '{"url":"https://reports.example\\@10.0.0.1/"}',
     '"url" may not have a fragment or a backslash'),
    ('host field', '{"url":"https://{site}.example/"}',
     '"url" may have fields behind the host only'),
    ('no host', '{"url":"https:///x"}',
     '"url" must have a host name or an address, and a port at most'),
    ('port 0', '{"url":"https://reports.example:0/x"}',
     '"url" must have a port from 1 to 65535'),
    ('port', '{"url":"https://reports.example:https/x"}',
     '"url" must have a host name or an address, and a port at most'),
    ('space', '{"url":"https://reports.example/a b"}',
     '"url" must be a URL of at most 2048 printable ASCII characters'),
    ('newline', '{"url":"https://reports.example/a\nb"}',
     '"url" must be a URL of at most 2048 printable ASCII characters'),
    ('no url', '{"url":null}',
     '"url" must be a URL of at most 2048 printable ASCII characters'),
    ('field', '{"url":"https://reports.example/{customer}"}',
     '"url" names the field {customer}, which there is not; one of tenant, '
     'kind, work_key, job_id, version, attempt, site, date'),
    ('brace', '{"url":"https://reports.example/{Site}"}',
     '"url" has a brace that is not part of a {field}'),
    ('method', '{"method":"DELETE"}',
     '"method" must be one of GET, HEAD, POST'),
    ('head', '{"method":"HEAD"}',
     '"method" HEAD brings no body for a pointer to look at'),
    ('body', '{"body":"x"}', '"body" goes with the method POST only'),
    ('secret', '{"headers":{"Authorization":"Bearer abc"}}',
     '"headers": Authorization must be "@name", a file of the secrets'' '
     'directory: secrets are not kept here'),
    ('path', '{"headers":{"Authorization":"@../keys/x"}}',
     '"headers": Authorization must name a file of the secrets'' directory, '
     '"@name"'),
    ('host', '{"headers":{"Host":"x"}}', '"headers": Host may not be set'),
    ('header line', '{"headers":{"X-A":"a\r\nX-B: b"}}',
     '"headers": X-A must be at most 1024 printable ASCII characters'),
    ('header name', '{"headers":{"X A":"a"}}',
     '"headers": "X A" is no name for one (letters, digits and "-")'),
    ('header field', '{"headers":{"X-A":"{nobody}"}}',
     '"headers": X-A names the field {nobody}, which there is not; one of '
     'tenant, kind, work_key, job_id, version, attempt, site, date'),
    ('twice', '{"headers":{"X-A":"a","x-a":"b"}}',
     '"headers" names one twice'),
    ('status', '{"found":{"status":[503]}}',
     '"found" has a "status" 503: a definite answer has 2xx or 4xx, but not '
     '407, 408 or 429'),
    ('redirect', '{"found":{"status":[302]}}',
     '"found" has a "status" 302: a definite answer has 2xx or 4xx, but not '
     '407, 408 or 429'),
    ('limit', '{"not_found":{"status":[429]}}',
     '"not_found" has a "status" 429: a definite answer has 2xx or 4xx, but '
     'not 407, 408 or 429'),
    ('both', '{"found":{"status":[200]},"not_found":{"status":[404,200]}}',
     '"found" and "not_found" both take status 200'),
    ('no found', '{"found":null}',
     '"found" is needed: which answer says that it is there'),
    ('pointer', '{"found":{"status":[200],"pointer":"state"}}',
     '"found" has a "pointer" that must be a JSON pointer (RFC 6901) of at '
     'most 256 bytes'),
    ('equals', '{"found":{"status":[200],"pointer":"/a","equals":[{}]}}',
     '"found" has "equals" with something that is no short string, number, '
     'true, false or null'),
    ('equals alone', '{"found":{"status":[200],"equals":["a"]}}',
     '"found" needs "pointer" for "equals" and "missing"'),
    ('missing', '{"found":{"status":[200],"pointer":"/a","missing":false}}',
     '"found" has "missing", which can only be true'),
    ('match field', '{"found":{"status":[200],"body":"x"}}',
     '"found" has no field "body"'),
    ('timeout', '{"timeout":0}', '"timeout" must be between 1 and 30'),
    ('delay', '{"delay":1.5}', '"delay" must be a whole number'),
    ('max', '{"max_checks":0}', '"max_checks" must be between 1 and 1000'),
    ('exhausted', '{"on_exhausted":"guess"}',
     '"on_exhausted" must be one of hold, retry, fail');

select is(pg_temp.trouble((g.spec || b.patch::jsonb)::text), b.sentence,
    b.what)
from bad b, good g;

select is(pg_temp.trouble((spec || '{"result_pointer":null}')::text,
        'effect'),
    '"delay" is not a field of a look-up',
    'how often is said by the effect kind')
from good;
select is(pg_temp.trouble('{"type":"worker","url":"https://x/"}'),
    '"url" is not a field of a look-up of type worker', 'a worker''s URL');
select is(pg_temp.trouble('{"type":"worker","delay":1,"delay":2}'),
    'has "delay" twice', 'a field twice');
select is(pg_temp.trouble('[]'), 'must be an object', 'no object');

select * from finish();
rollback;
