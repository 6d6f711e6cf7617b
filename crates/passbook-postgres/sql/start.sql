-- Records the input and makes the workflow ready; the first start fixes the kind. Takes the workflow's advisory lock, by which
-- batches know that it is spoken to, then locks the record of the input, then the queue row. A start that was not the first
-- changes nothing, so it neither brings back a workflow that is over nor queues one of another kind. One record, one queue row.
-- $1 namespace, $2 workflow, $3 input, $4 now
WITH locked AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(hashtextextended('workflow:' || $2, 0))
), recorded AS (
    INSERT INTO {schema}workflow_checkpoint AS r (workflow, step, value, namespace)
    SELECT $2, ':input', $3::text::jsonb, $1
    FROM (SELECT count(*) AS rows FROM locked) l
    WHERE l.rows >= 0
    ON CONFLICT (workflow, step) DO UPDATE SET step = r.step
    RETURNING r.xmax = 0 AS first, r.namespace, CASE WHEN r.xmax <> 0 THEN r.value::text END AS value
), queued AS (
    INSERT INTO {schema}workflow_queue AS q (namespace, workflow, visible_at)
    SELECT $1, $2, coalesce($4, now())
    FROM recorded
    WHERE recorded.first
    ON CONFLICT (namespace, workflow)
        DO UPDATE SET visible_at = least(q.visible_at - interval '1 microsecond', excluded.visible_at)
)
SELECT recorded.first, coalesce(recorded.namespace, $1) = $1 AS of_kind, recorded.value FROM recorded
