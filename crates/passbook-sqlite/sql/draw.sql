-- Draws the next number of the store. The file's write lock is held from here to the commit, so a later number commits
-- later, and whoever has seen a number never sees a smaller one appear.
-- Bound: one row.
UPDATE workflow_sequence SET seq = seq + 1 RETURNING seq
