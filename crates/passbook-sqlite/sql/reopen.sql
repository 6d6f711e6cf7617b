-- Makes a failed or cancelled workflow claimable again and forgets its failures. The token stays: it never goes back.
-- ?1 workflow, ?2 now. Runs under the file's write lock. Bound: one row.
UPDATE workflow_claim SET
    held_until = min(held_until, ?2),
    open = 0,
    state = 'ready',
    waits_for = '[]',
    wake_at = NULL,
    attempts = 0,
    running = NULL,
    error = NULL,
    finished_at = NULL
WHERE workflow = ?1 AND state IN ('failed', 'cancelled')
