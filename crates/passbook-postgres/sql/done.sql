-- Answers for a delivery with nothing more to run; a wakeup that came meanwhile shows in the row, and is ready now. Locks the
-- queue row.
-- $1 namespace, $2 workflow, $3 receipt, $4 now
WITH queued AS MATERIALIZED (
    SELECT q.visible_at FROM {schema}workflow_queue q WHERE q.namespace = $1 AND q.workflow = $2 FOR UPDATE
), answered AS (
    DELETE FROM {schema}workflow_queue q
    WHERE q.namespace = $1 AND q.workflow = $2 AND (SELECT queued.visible_at FROM queued) = $3
)
UPDATE {schema}workflow_queue q
SET visible_at = least(q.visible_at, coalesce($4, now()))
WHERE q.namespace = $1 AND q.workflow = $2 AND (SELECT queued.visible_at FROM queued) <> $3
