-- Makes a workflow due now. The row always moves, be it by one microsecond, also when it was due before: a delivery
-- whose lease has run out unnoticed would otherwise not see that a wakeup came after it.
-- ?1 namespace, ?2 workflow, ?3 now. Runs under the file's write lock. Bound: one row.
INSERT INTO workflow_queue (namespace, workflow, visible_at)
VALUES (?1, ?2, ?3)
ON CONFLICT (namespace, workflow) DO UPDATE SET visible_at = min(workflow_queue.visible_at - 1, excluded.visible_at)
