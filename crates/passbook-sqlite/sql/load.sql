-- The checkpoint of one workflow, in first-recorded order. After `claim` it runs in its transaction, as a statement of
-- its own; else it reads one snapshot and locks nothing.
-- ?1 workflow. Bound: the records of the workflow.
SELECT step, value, seq, recorded_at
FROM workflow_checkpoint
WHERE workflow = ?1
ORDER BY seq
