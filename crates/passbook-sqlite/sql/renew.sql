-- Prolongs a claim that is still the highest and not settled, and notes the step that is about to run. A renewal that
-- comes after its own pass has settled must not hide the workflow from the next one, hence `open`.
-- ?1 workflow, ?2 token, ?3 held until, ?4 running or null. Runs under the file's write lock. Bound: one row.
UPDATE workflow_claim SET held_until = ?3, running = coalesce(?4, running)
WHERE workflow = ?1 AND token = ?2 AND open
