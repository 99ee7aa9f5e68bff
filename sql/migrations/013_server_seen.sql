-- 013_server_seen.sql: when this server was first seen running.

-- One row: the start of the server, and when recovery first met it.  Unlogged:
-- a crash empties it, so does the promotion of a standby; after an orderly
-- stop its start is another one.  So whenever owners could not be heard
-- because the server was away, the row has to be made anew, after the server
-- has recovered, however long that took.
create unlogged table interlock.server_seen (
    one      boolean primary key default true check (one),
    start    timestamptz not null,
    seen_at  timestamptz not null
);
