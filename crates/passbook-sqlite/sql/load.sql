-- The checkpoints of some workflows, each in first-recorded order. After `claim` it runs in its transaction, as a statement
-- of its own; else it reads one snapshot and locks nothing. Of a workflow whose records are known up to some place, only what
-- was sent to it and stands after that.
-- ?1 JSON array of [workflow, place or null]. Bound: the records of the workflows.
SELECT asked.key AS place, record.step, record.value, record.seq, record.recorded_at
FROM json_each(?1) AS asked
CROSS JOIN workflow_checkpoint AS record ON record.workflow = asked.value ->> 0
WHERE asked.value ->> 1 IS NULL
UNION ALL
SELECT asked.key AS place, record.step, record.value, record.seq, record.recorded_at
FROM json_each(?1) AS asked
CROSS JOIN workflow_checkpoint AS record
    ON record.workflow = asked.value ->> 0 AND record.seq > asked.value ->> 1 AND record.arrived
ORDER BY 1, 4
