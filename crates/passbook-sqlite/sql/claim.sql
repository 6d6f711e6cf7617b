-- Grants claims, each with a token above any before, unless somebody holds it or the workflow is over: then no row comes
-- back for it, and of two for one workflow the first is granted. A claim of ours that was left open counts as one failed
-- attempt, and only then is the step that ran told.
-- ?1 JSON array of [workflow, namespace or null], ?2 now, ?3 held until. Runs under the file's write lock. Bound: the rows
-- given.
INSERT INTO workflow_claim (workflow, token, held_until, open, namespace)
SELECT asked.value ->> 0, 1, ?3, 1, asked.value ->> 1
FROM json_each(?1) AS asked
WHERE true
ON CONFLICT (workflow) DO UPDATE SET
    token = workflow_claim.token + 1,
    held_until = excluded.held_until,
    attempts = workflow_claim.attempts + workflow_claim.open,
    running = CASE WHEN workflow_claim.open THEN workflow_claim.running END,
    open = 1,
    namespace = coalesce(excluded.namespace, workflow_claim.namespace)
WHERE workflow_claim.held_until <= ?2
    AND (workflow_claim.state IS NULL OR workflow_claim.state NOT IN ('completed', 'failed', 'cancelled'))
RETURNING workflow, token, attempts, running
