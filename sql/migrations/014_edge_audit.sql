-- 014_edge_audit.sql: what the edge answered alone.

-- One row a zone of an edge: its numbers against the rows that came of them.
-- The edge numbers what it answers alone from 1, per zone; a zone that begins
-- anew has another id.  It is no tenant's: one zone serves them all.
--   high            the greatest number heard of
--   received        numbers that became a request's row
--   mark            what high was at marked_at, and how many of those up to it
--   marked            had become rows by now: some seconds later nothing that
--                     is on its way is as old, and the rest is missing
--   missing         what was found so; it only grows
--   changed_at      when high or received changed last
-- The row of the nil id has the sums of zones that are long gone.
create table interlock.edge_zones (
    zone        uuid primary key,
    high        bigint not null default 0 check (high >= 0),
    received    bigint not null default 0,
    mark        bigint not null default 0,
    marked      bigint not null default 0,
    marked_at   timestamptz not null default clock_timestamp(),
    missing     bigint not null default 0 check (missing >= 0),
    changed_at  timestamptz not null default clock_timestamp(),
    check (received between 0 and high),
    check (mark between 0 and high and marked between 0 and mark),
    check (marked <= received)
);
