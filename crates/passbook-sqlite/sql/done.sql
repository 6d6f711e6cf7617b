-- Answers for a delivery after which nothing is to be run. One that a later wakeup has changed stays.
-- ?1 namespace, ?2 workflow, ?3 receipt. Runs under the file's write lock. Bound: one row.
DELETE FROM workflow_queue WHERE namespace = ?1 AND workflow = ?2 AND visible_at = ?3
