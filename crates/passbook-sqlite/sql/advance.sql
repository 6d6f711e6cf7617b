-- Moves the last number drawn past those that `record` or `supply` has given out.
-- ?1 how many. Runs after them in their transaction. Bound: one row.
UPDATE workflow_sequence SET seq = seq + ?1
