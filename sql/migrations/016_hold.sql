-- 016_hold.sql: how long the edge may answer repeats of a work key by itself.

-- Its answer gains a column: it is made anew by its file.
drop function if exists interlock.submit(int[], uuid[], text[], text[],
    bytea[], text[], text[], text[], bigint[], bytea[], text[], text[],
    text[], int[], timestamptz[], timestamptz[], boolean[], text[], text[],
    boolean);

alter type interlock.submit_answer add attribute hold int;

-- Seconds; 0: never.  More than two would tell somebody of a job as under way
-- that ended long ago behind another edge.
alter table interlock.kind_versions
    add column hold int not null default 1 check (hold between 0 and 2);
