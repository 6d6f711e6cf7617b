-- Takes a workflow out of the queue, raises its fence and forgets its state: the first statement of a delete. Locks the queue
-- row, then the claim row. The row stays, so that a token never comes again. With a NULL namespace it leaves the queue alone.
-- $1 namespace, $2 workflow, $3 now
WITH dequeued AS (
    DELETE FROM {schema}workflow_queue q WHERE q.namespace = $1 AND q.workflow = $2 RETURNING q.workflow
)
UPDATE {schema}workflow_claim c SET
    token = c.token + 1, held_until = coalesce($3, now()), open = false, namespace = NULL, state = NULL, waits_for = '{}',
    wake_at = NULL, attempts = 0, running = NULL, error = NULL, finished_at = NULL
WHERE c.workflow = $2 AND (SELECT count(*) FROM dequeued) >= 0
