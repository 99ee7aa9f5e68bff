-- 005_action_calls.sql: what an operator does is done once.
--
-- interlockd gives each such call an id before its first try.  If the answer
-- to its COMMIT is lost it makes the call again under that id, and finds what
-- it did.

alter table interlock.actions add call_id uuid;

create unique index actions_call on interlock.actions (tenant, call_id)
    where call_id is not null;

-- Made anew by their files, with one argument more.
drop function if exists interlock.job_cancel(int, uuid, text, text, bigint,
    text);
drop function if exists interlock.work_publish(int, text, int, text, text,
    bigint, text);
