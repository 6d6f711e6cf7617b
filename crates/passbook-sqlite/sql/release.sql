-- Hands a claim back and writes what the pass left, unless the claim was lost or settled before: then no row changes.
-- `held_until` is set back so that a program which knows only the base columns sees it free.
-- ?1 workflow, ?2 token, ?3 now, ?4 state, ?5 waits_for, ?6 wake_at, ?7 what becomes of the attempts (clear, add, keep),
-- ?8 error, ?9 finished_at. Runs under the file's write lock. Bound: one row.
UPDATE workflow_claim SET
    held_until = ?3,
    open = 0,
    state = ?4,
    waits_for = ?5,
    wake_at = ?6,
    attempts = CASE ?7 WHEN 'add' THEN attempts + 1 WHEN 'keep' THEN attempts ELSE 0 END,
    error = CASE ?7 WHEN 'add' THEN ?8 WHEN 'keep' THEN error END,
    running = CASE ?7 WHEN 'clear' THEN NULL ELSE running END,
    finished_at = ?9
WHERE workflow = ?1 AND token = ?2 AND open
