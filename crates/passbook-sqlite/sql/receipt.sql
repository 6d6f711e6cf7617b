-- The receipt of deliveries that are hidden until a moment: that moment, or as many microseconds before it as there
-- were receipts for it already, so that no two are equal even when the clock stands still.
-- ?1 hidden until. Runs under the file's write lock. Bound: one row.
UPDATE workflow_sequence
SET ties = CASE WHEN leased_until = ?1 THEN ties + 1 ELSE 0 END, leased_until = ?1
RETURNING leased_until - ties
