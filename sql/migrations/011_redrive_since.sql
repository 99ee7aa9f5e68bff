-- 011_redrive_since.sql: a plan to redrive leaves out what succeeded since.
-- Helpers whose arguments or answers changed: made anew by their file.

drop function if exists interlock.redrive_filter(text);
drop function if exists interlock.redrive_one(int, uuid, json, text, text,
    bigint, text);
