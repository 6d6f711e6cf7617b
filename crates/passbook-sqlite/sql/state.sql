-- Whether a workflow that could not be claimed is over; no row when it has never been claimed.
-- ?1 workflow. Runs after `claim` in its transaction. Bound: one row.
SELECT coalesce(state IN ('completed', 'failed', 'cancelled'), 0) FROM workflow_claim WHERE workflow = ?1
