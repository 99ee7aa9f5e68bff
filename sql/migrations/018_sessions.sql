-- 018_sessions.sql: who is logged in to the pages.
--
-- A session is as good as the API token that opened it, for as long as both
-- live.  Only a hash of what the browser keeps is here.  It is found by that
-- hash alone, which finds out the tenant, as for api_tokens.

create table interlock.sessions (
    hash        bytea primary key check (octet_length(hash) = 32),
    tenant      int not null,
    token_id    bigint not null,
    created_at  timestamptz not null default clock_timestamp(),
    seen_at     timestamptz not null default clock_timestamp(),
    ends_at     timestamptz not null,
    foreign key (tenant, token_id) references interlock.api_tokens (tenant, id)
        on delete cascade,
    check (ends_at > created_at),
    check (seen_at >= created_at)
);

-- What a token has open, the newest first.
create index sessions_token on interlock.sessions
    (tenant, token_id, created_at desc);

-- What is over, for prune.
create index sessions_ends on interlock.sessions (ends_at);
