-- Lets a failed or cancelled workflow go on, with its attempts forgotten. Locks the queue row where there is one, then the
-- claim row. False, and nothing written, when it is neither. With a NULL namespace it leaves the queue alone: the half that a
-- split pair uses.
-- $1 namespace, $2 workflow, $3 now
WITH queued AS MATERIALIZED (
    SELECT FROM {schema}workflow_queue q WHERE q.namespace = $1 AND q.workflow = $2 FOR UPDATE
), reopened AS (
    UPDATE {schema}workflow_claim c SET
        state = 'ready', attempts = 0, open = false, running = NULL, error = NULL, finished_at = NULL
    WHERE c.workflow = $2 AND c.state IN ('failed', 'cancelled') AND (SELECT count(*) FROM queued) >= 0
    RETURNING c.workflow
), ready AS (
    INSERT INTO {schema}workflow_queue AS q (namespace, workflow, visible_at)
    SELECT $1, reopened.workflow, coalesce($3, now())
    FROM reopened
    WHERE $1::text IS NOT NULL
    ON CONFLICT (namespace, workflow)
        DO UPDATE SET visible_at = least(q.visible_at - interval '1 microsecond', excluded.visible_at)
)
SELECT EXISTS (SELECT FROM reopened) AS reopened
