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

-- A request of which only its idempotency key is known, and its repeats.
create index requests_idem on interlock.requests
    (tenant, idempotency_key, id) where idempotency_key is not null;

-- Jobs in a state that few get into.  What is queued or running leaves no
-- entry here, nor does what succeeds.
create index jobs_status on interlock.jobs (tenant, status, id)
    where status in ('checking', 'held', 'parked', 'failed', 'canceled',
        'superseded', 'expired');
