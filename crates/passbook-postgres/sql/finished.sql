-- Reads how some workflows ended, those that did. Locks nothing. Two index look-ups for each.
-- $1 workflows
SELECT w.workflow, c.state, c.error, r.value
FROM unnest((SELECT $1::text[])) AS w (workflow)
CROSS JOIN LATERAL (
    SELECT c.state, c.error
    FROM {schema}workflow_claim c
    WHERE c.workflow = w.workflow AND c.state IN ('completed', 'failed', 'cancelled')
    LIMIT 1
) c
LEFT JOIN LATERAL (
    SELECT r.value::text AS value
    FROM {schema}workflow_checkpoint r
    WHERE r.workflow = w.workflow AND r.step = ':result'
    LIMIT 1
) r ON c.state = 'completed'
