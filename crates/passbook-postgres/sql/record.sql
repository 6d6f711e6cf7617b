-- Records from inside a pass, fenced. Locks the claim row, so that a claim in flight is waited for and its token compared,
-- then the record. `FOR KEY SHARE` would not conflict with a claim. No row comes back when the token is below the highest.
-- $1 workflow, $2 step, $3 value, $4 token
INSERT INTO {schema}workflow_checkpoint AS r (workflow, step, value)
SELECT c.workflow, $2, $3::text::jsonb
FROM {schema}workflow_claim c
WHERE c.workflow = $1 AND c.token <= $4
FOR NO KEY UPDATE
ON CONFLICT (workflow, step) DO UPDATE SET step = r.step
RETURNING r.xmax = 0 AS first, CASE WHEN r.xmax <> 0 THEN r.value::text END AS value
