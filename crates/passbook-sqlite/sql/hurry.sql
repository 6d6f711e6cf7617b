-- Makes due now what `done` has left: a wakeup came after the delivery was taken.
-- ?1 namespace, ?2 workflow, ?3 now. Runs after `done` in its transaction. Bound: one row.
UPDATE workflow_queue SET visible_at = min(visible_at, ?3) WHERE namespace = ?1 AND workflow = ?2
