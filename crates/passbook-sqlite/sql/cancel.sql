-- Marks a workflow cancelled and raises its fence, unless it is over or nobody has written of it: then no row changes.
-- What `discard` left behind does not count as written of.
-- ?1 workflow, ?2 now. Runs under the file's write lock. Bound: one row.
INSERT INTO workflow_claim (workflow, token, held_until, state, finished_at)
SELECT ?1, 1, ?2, 'cancelled', ?2
WHERE EXISTS (SELECT 1 FROM workflow_checkpoint WHERE workflow = ?1)
    OR EXISTS (
        SELECT 1 FROM workflow_claim WHERE workflow = ?1 AND (open OR state IS NOT NULL OR held_until > ?2)
    )
ON CONFLICT (workflow) DO UPDATE SET
    token = workflow_claim.token + 1,
    held_until = excluded.held_until,
    open = 0,
    state = 'cancelled',
    waits_for = '[]',
    wake_at = NULL,
    running = NULL,
    finished_at = excluded.finished_at
WHERE workflow_claim.state IS NULL OR workflow_claim.state NOT IN ('completed', 'failed', 'cancelled')
