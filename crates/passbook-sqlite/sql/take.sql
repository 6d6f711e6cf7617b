-- Hides under their receipt what `due` has found, with the same ?1 namespace, ?2 now and ?3 limit.
-- ?4 receipt. Runs after `due` in its transaction. Bound: the limit.
UPDATE workflow_queue SET visible_at = ?4 WHERE rowid IN (
    SELECT rowid FROM workflow_queue WHERE namespace = ?1 AND visible_at <= ?2 ORDER BY visible_at LIMIT ?3
)
