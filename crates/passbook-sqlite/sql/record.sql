-- Records a step unless its key is taken or the claim is below the highest token; in both cases nothing is inserted.
-- ?1 workflow, ?2 step, ?3 value, ?4 token, ?5 time. Runs under the file's write lock, so no claim can be in flight
-- while the token is compared. Bound: one row.
INSERT INTO workflow_checkpoint (workflow, step, value, recorded_at)
SELECT claim.workflow, ?2, ?3, ?5
FROM workflow_claim AS claim
WHERE claim.workflow = ?1 AND claim.token <= ?4
ON CONFLICT (workflow, step) DO NOTHING
