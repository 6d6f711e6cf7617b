-- Reads, before a `transact` effect runs, whether its pass holds the workflow and whether the step is recorded. Locks
-- nothing, so renewals land while the effect runs; the commit asks again under the lock.
-- $1 workflow, $2 step, $3 token
SELECT
    c.token <= $3 AS holds,
    (SELECT r.value::text FROM {schema}workflow_checkpoint r WHERE r.workflow = $1 AND r.step = $2) AS value
FROM {schema}workflow_claim c
WHERE c.workflow = $1
