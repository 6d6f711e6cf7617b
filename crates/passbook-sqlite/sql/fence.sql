-- The highest token of a workflow and what stands under a key, each null when it is not there.
-- ?1 workflow, ?2 step. Reads under the file's write lock where it decides a write. Bound: two rows.
SELECT
    (SELECT token FROM workflow_claim WHERE workflow = ?1),
    (SELECT value FROM workflow_checkpoint WHERE workflow = ?1 AND step = ?2)
