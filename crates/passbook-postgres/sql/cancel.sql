-- Marks a workflow cancelled, raises the fence, and takes it out of the queue. Locks the queue row, then the claim row. False,
-- and nothing written, when it is over already or nobody has written of it. With a NULL namespace it leaves the queue alone:
-- the half that a split pair uses.
-- $1 namespace, $2 workflow, $3 now
WITH queued AS MATERIALIZED (
    SELECT FROM {schema}workflow_queue q WHERE q.namespace = $1 AND q.workflow = $2 FOR UPDATE
), cancelled AS (
    INSERT INTO {schema}workflow_claim AS c (workflow, token, held_until, state, finished_at)
    SELECT $2, 1, coalesce($3, now()), 'cancelled', coalesce($3, now())
    WHERE (SELECT count(*) FROM queued) >= 0
      AND (EXISTS (SELECT FROM {schema}workflow_checkpoint r WHERE r.workflow = $2)
        OR EXISTS (
            SELECT FROM {schema}workflow_claim k
            WHERE k.workflow = $2 AND (k.state IS NOT NULL OR k.open OR k.held_until > coalesce($3, now()))))
    ON CONFLICT (workflow) DO UPDATE SET
        token = c.token + 1,
        held_until = excluded.held_until,
        open = false,
        state = 'cancelled',
        waits_for = '{}',
        wake_at = NULL,
        running = NULL,
        finished_at = excluded.finished_at
    WHERE c.state IS NULL OR c.state NOT IN ('completed', 'failed', 'cancelled')
    RETURNING c.workflow
), removed AS (
    DELETE FROM {schema}workflow_queue q
    WHERE q.namespace = $1 AND q.workflow = $2 AND (SELECT count(*) FROM cancelled) = 1
)
SELECT EXISTS (SELECT FROM cancelled) AS cancelled
