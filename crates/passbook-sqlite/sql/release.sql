-- Hands claims back and writes what their passes left, each unless it was lost or settled before: then its row does not
-- change and does not come back. `held_until` is set back so that a program which knows only the base columns sees it free.
-- ?1 JSON array of [workflow, token, state, waits_for, wake_at, what becomes of the attempts (clear, add, keep), error,
-- finished_at], no two of one claim, ?2 now. Runs under the file's write lock. Bound: the rows given.
UPDATE workflow_claim SET
    held_until = ?2,
    open = 0,
    state = asked.value ->> 2,
    waits_for = asked.value ->> 3,
    wake_at = asked.value ->> 4,
    attempts = CASE asked.value ->> 5 WHEN 'add' THEN attempts + 1 WHEN 'keep' THEN attempts ELSE 0 END,
    error = CASE asked.value ->> 5 WHEN 'add' THEN asked.value ->> 6 WHEN 'keep' THEN error END,
    running = CASE asked.value ->> 5 WHEN 'clear' THEN NULL ELSE running END,
    finished_at = asked.value ->> 7
FROM json_each(?1) AS asked
WHERE workflow_claim.workflow = asked.value ->> 0 AND workflow_claim.token = asked.value ->> 1 AND workflow_claim.open
RETURNING workflow, token
