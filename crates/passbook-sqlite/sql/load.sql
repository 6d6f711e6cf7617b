-- The checkpoints of some workflows, each in first-recorded order. After `claim` it runs in its transaction, as a statement
-- of its own; else it reads one snapshot and locks nothing.
-- ?1 JSON array of workflows. Bound: the records of the workflows.
SELECT asked.key AS place, record.step, record.value, record.seq, record.recorded_at
FROM json_each(?1) AS asked
CROSS JOIN workflow_checkpoint AS record ON record.workflow = asked.value
ORDER BY asked.key, record.seq
