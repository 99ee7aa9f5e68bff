-- 019_lists.sql: what the lists need.
--
-- Most of them go by keys that are there already: ids of requests and jobs
-- grow with time, works stand in the order of their keys.  A list whose filter
-- has no index looks at a bounded number of rows and says where to go on.

-- Made anew by their files: they answer otherwise.
drop function if exists interlock.jobs_list(int, text, text, text, text,
    timestamptz, int, text);
drop function if exists interlock.kind_list(int);

-- True: nginx answered it alone.  Null, which costs a row nothing, otherwise.
alter table interlock.requests add column edge boolean;

-- Both indexes go by expressions, so that only a query that names these may
-- use them: a plan of another one, made while the tables were empty, would
-- else find rows by the tenant or the status alone ever after.

-- A request of which only its idempotency key is known, and its repeats, also
-- when the key is long free again (idempotency).  The key's hash is half as
-- large; it costs a submission about 3 us and 150 bytes of WAL.
create index requests_idem on interlock.requests
    (tenant, hashtext(idempotency_key), arrived_at)
    where hashtext(idempotency_key) is not null;

-- Jobs in a state that few get into.  What is queued or running leaves no
-- entry here, nor does what succeeds: only who fails or is put aside pays.
create index jobs_status on interlock.jobs (tenant, (status || ''), id)
    where status || '' in ('checking', 'held', 'parked', 'failed',
        'canceled', 'superseded', 'expired');
