-- Answers for a delivery with a later moment; a wakeup that came meanwhile shows in the row, and counts. Locks the queue row.
-- $1 namespace, $2 workflow, $3 receipt, $4 when, $5 now
UPDATE {schema}workflow_queue q
SET visible_at = CASE WHEN q.visible_at = $3 THEN $4 ELSE least(q.visible_at, coalesce($5, now())) END
WHERE q.namespace = $1 AND q.workflow = $2
