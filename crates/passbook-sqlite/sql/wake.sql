-- `make_ready` for many, each unless its workflow is completed, failed or cancelled.
-- ?1 JSON array of [namespace, workflow], ?2 now. Runs under the file's write lock. Bound: the rows given.
INSERT INTO workflow_queue (namespace, workflow, visible_at)
SELECT asked.value ->> 0, asked.value ->> 1, ?2
FROM json_each(?1) AS asked
WHERE NOT EXISTS (
    SELECT 1
    FROM workflow_claim AS claim
    WHERE claim.workflow = asked.value ->> 1 AND claim.state IN ('completed', 'failed', 'cancelled')
)
ON CONFLICT (namespace, workflow) DO UPDATE SET visible_at = min(workflow_queue.visible_at - 1, excluded.visible_at)
