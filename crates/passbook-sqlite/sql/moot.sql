-- Which of some deliveries are of no use: the workflow is over, or something was sent as to another kind before the start
-- told which kind it is. Gives their places.
-- ?1 JSON array of [workflow, namespace or null]. Decides under the file's write lock. Bound: two rows for each given.
SELECT asked.key
FROM json_each(?1) AS asked
WHERE EXISTS (
    SELECT 1
    FROM workflow_claim AS claim
    WHERE claim.workflow = asked.value ->> 0 AND claim.state IN ('completed', 'failed', 'cancelled')
)
OR EXISTS (
    SELECT 1
    FROM workflow_checkpoint AS input
    WHERE input.workflow = asked.value ->> 0 AND input.step = ':input' AND input.namespace <> asked.value ->> 1
)
