-- The last number drawn: what is recorded later has a higher one.
-- Runs under the file's write lock. Bound: one row.
SELECT seq FROM workflow_sequence
