-- Hides a delivery for another lease under its new receipt; one that is no longer held stays as it is.
-- ?1 namespace, ?2 workflow, ?3 old receipt, ?4 new receipt. Runs under the file's write lock. Bound: one row.
UPDATE workflow_queue SET visible_at = ?4 WHERE namespace = ?1 AND workflow = ?2 AND visible_at = ?3
