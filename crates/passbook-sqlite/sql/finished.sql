-- How those of the workflows that are over have ended.
-- ?1 the workflows, as a JSON array. Reads one snapshot, locks nothing. Bound: two rows for each that was asked for.
SELECT claim.workflow, claim.state, result.value, claim.error
FROM jsonb_each(?1) AS asked
CROSS JOIN workflow_claim AS claim ON claim.workflow = asked.value
LEFT JOIN workflow_checkpoint AS result
    ON result.workflow = claim.workflow AND result.step = ':result' AND claim.state = 'completed'
WHERE claim.state IN ('completed', 'failed', 'cancelled')
