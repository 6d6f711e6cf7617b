-- Grants the claim to one caller at most: the row lock of the upsert decides, the token rises. A claim that is open, which
-- means that nobody settled it, counts as a failed attempt. No row comes back when somebody holds it or it is over. Locks
-- the claim row. The comparison goes through `excluded`, so that the statement stays on one shard where tables are spread.
-- $1 workflow, $2 now, $3 lease
INSERT INTO {schema}workflow_claim AS held (workflow, token, held_until, open)
VALUES ($1, 1, coalesce($2, now()) + $3::interval, true)
ON CONFLICT (workflow) DO UPDATE SET
    token = held.token + 1,
    held_until = excluded.held_until,
    attempts = held.attempts + CASE WHEN held.open THEN 1 ELSE 0 END,
    open = true
WHERE (held.state IS NULL OR held.state NOT IN ('completed', 'failed', 'cancelled'))
  AND CASE WHEN isfinite(held.held_until)
        THEN excluded.held_until - held.held_until >= $3::interval
        ELSE held.held_until < excluded.held_until END
RETURNING held.token, held.attempts, held.running
