-- 012_advice_lost.sql: advice tells lost attempts from silent ones; its helper
-- takes one number more, and is made anew by its file.

drop function if exists interlock.lease_advice(interlock.kind_versions, int,
    int, float8, float8, int);
