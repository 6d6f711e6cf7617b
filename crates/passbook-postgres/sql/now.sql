-- Reads the store's time. Locks nothing.
-- $1 now
SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
