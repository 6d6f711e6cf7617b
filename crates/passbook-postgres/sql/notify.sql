-- Tells other processes on a channel. Only a hint, so its commit is not waited for on disk: a NOTIFY holds a lock of the whole
-- server up to the end of its commit. Never part of a transaction that does anything else.
-- $1 channel, $2 payload of at most 8,000 bytes
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)
