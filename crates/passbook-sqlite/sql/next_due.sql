-- When the next workflow of a namespace is due; null when nothing is queued. A look, locks nothing.
-- ?1 namespace. Bound: one entry of the index.
SELECT min(visible_at) FROM workflow_queue WHERE namespace = ?1
