-- Takes a workflow out of the queue, delivered or not; answers only ever update a row, so none brings it back.
-- ?1 namespace, ?2 workflow. Runs under the file's write lock. Bound: one row.
DELETE FROM workflow_queue WHERE namespace = ?1 AND workflow = ?2
