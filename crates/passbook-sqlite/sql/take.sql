-- Hides one due workflow under its receipt.
-- ?1 namespace, ?2 workflow, ?3 receipt. Runs after `due` in its transaction. Bound: one row.
UPDATE workflow_queue SET visible_at = ?3 WHERE namespace = ?1 AND workflow = ?2
