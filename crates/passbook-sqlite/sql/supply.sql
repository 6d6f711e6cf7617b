-- Records a value from outside unless its key is taken. No fence: it must not fail because a pass is running.
-- ?1 workflow, ?2 step, ?3 value, ?4 time, ?5 namespace on the `:input` row, else null.
-- Runs under the file's write lock. Bound: one row.
INSERT INTO workflow_checkpoint (workflow, step, value, recorded_at, namespace)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (workflow, step) DO NOTHING
