-- Grants the claim, with a token above any before, unless somebody holds it or the workflow is over: then no row comes
-- back. A claim of ours that was left open counts as one failed attempt, and only then is the step that ran told.
-- ?1 workflow, ?2 now, ?3 held until, ?4 namespace or null. Runs under the file's write lock. Bound: one row.
INSERT INTO workflow_claim (workflow, token, held_until, open, namespace)
VALUES (?1, 1, ?3, 1, ?4)
ON CONFLICT (workflow) DO UPDATE SET
    token = workflow_claim.token + 1,
    held_until = excluded.held_until,
    attempts = workflow_claim.attempts + workflow_claim.open,
    running = CASE WHEN workflow_claim.open THEN workflow_claim.running END,
    open = 1,
    namespace = coalesce(excluded.namespace, workflow_claim.namespace)
WHERE workflow_claim.held_until <= ?2
    AND (workflow_claim.state IS NULL OR workflow_claim.state NOT IN ('completed', 'failed', 'cancelled'))
RETURNING token, attempts, running
