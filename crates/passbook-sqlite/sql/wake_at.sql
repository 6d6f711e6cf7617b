-- Answers for a delivery: due again at a moment, or now when a wakeup came after it was taken. A cancelled workflow has
-- no row, and gets none.
-- ?1 namespace, ?2 workflow, ?3 receipt, ?4 when, ?5 now. Runs under the file's write lock. Bound: one row.
UPDATE workflow_queue
SET visible_at = CASE WHEN visible_at = ?3 THEN ?4 ELSE min(visible_at, ?5) END
WHERE namespace = ?1 AND workflow = ?2
