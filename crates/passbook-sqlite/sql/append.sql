-- Files a value in the inbox under the number that was drawn for it.
-- ?1 workflow, ?2 key, ?3 value, ?4 number, ?5 time. Runs after `draw` in its transaction. Bound: one row.
INSERT INTO workflow_checkpoint (workflow, step, value, seq, recorded_at) VALUES (?1, ?2, ?3, ?4, ?5)
