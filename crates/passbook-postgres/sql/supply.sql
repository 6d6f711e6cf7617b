-- Records from outside a pass, without a fence. The first writer wins; a losing write moves neither order nor time. Locks
-- the record.
-- $1 workflow, $2 key, $3 value
INSERT INTO {schema}workflow_checkpoint AS r (workflow, step, value, arrived)
VALUES ($1, $2, $3::text::jsonb, true)
ON CONFLICT (workflow, step) DO UPDATE SET step = r.step
RETURNING r.xmax = 0 AS first, CASE WHEN r.xmax <> 0 THEN r.value::text END AS value
