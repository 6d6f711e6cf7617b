-- Prolongs claims, each that is still the highest and not settled, notes the steps that are about to run, and gives those
-- that it has prolonged. A renewal that comes after its own pass has settled must not hide the workflow from the next one,
-- hence `open`.
-- ?1 JSON array of [workflow, token, running or null], ?2 held until. Runs under the file's write lock. Bound: the rows
-- given.
UPDATE workflow_claim SET held_until = ?2, running = coalesce(asked.value ->> 2, running)
FROM json_each(?1) AS asked
WHERE workflow_claim.workflow = asked.value ->> 0 AND workflow_claim.token = asked.value ->> 1 AND workflow_claim.open
RETURNING workflow, token
