-- Makes a workflow ready now. Locks the queue row. It moves by at least a microsecond, so that the wakeup shows in the row of
-- a delivery whose lease ran out unnoticed.
-- $1 namespace, $2 workflow, $3 now
INSERT INTO {schema}workflow_queue AS q (namespace, workflow, visible_at)
VALUES ($1, $2, coalesce($3, now()))
ON CONFLICT (namespace, workflow)
    DO UPDATE SET visible_at = least(q.visible_at - interval '1 microsecond', excluded.visible_at)
