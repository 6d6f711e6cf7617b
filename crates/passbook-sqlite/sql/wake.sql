-- `make_ready`, unless the workflow is completed, failed or cancelled.
-- ?1 namespace, ?2 workflow, ?3 now. Runs under the file's write lock. Bound: one row.
INSERT INTO workflow_queue (namespace, workflow, visible_at)
SELECT ?1, ?2, ?3
WHERE NOT EXISTS (
    SELECT 1 FROM workflow_claim WHERE workflow = ?2 AND state IN ('completed', 'failed', 'cancelled')
)
ON CONFLICT (namespace, workflow) DO UPDATE SET visible_at = min(workflow_queue.visible_at - 1, excluded.visible_at)
