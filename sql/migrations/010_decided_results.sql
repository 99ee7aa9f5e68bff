-- 010_decided_results.sql: what was decided, or found, carries the fence of its
-- job's last attempt (job_succeed); nobody takes the next one for it any more.

drop function if exists interlock.next_fence(int, text);
