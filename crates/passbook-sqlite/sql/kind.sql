-- The kind as which the workflow was started; no row, or null, when that is not known.
-- ?1 workflow. Reads under the file's write lock, so that the answer holds until the commit. Bound: one row.
SELECT namespace FROM workflow_checkpoint WHERE workflow = ?1 AND step = ':input'
