-- Records a value from outside and makes the workflow ready. Takes the workflow's advisory lock, then locks the queue row, then
-- the record, so that numbers of one workflow are drawn in the order in which they commit. A workflow that is over is not
-- queued; its claim row stays locked to the end, so that it cannot go on meanwhile and miss the wakeup. No row comes back when
-- the workflow was started as another kind; then nothing is written.
-- $1 namespace, $2 workflow, $3 key, $4 value, $5 now
WITH locked AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(hashtextextended('workflow:' || $2, 0))
), kind AS MATERIALIZED (
    SELECT (SELECT count(*) FROM locked) >= 0 AND NOT EXISTS (
        SELECT FROM {schema}workflow_checkpoint i
        WHERE i.workflow = $2 AND i.step = ':input' AND i.namespace <> $1
    ) AS ours
), over AS MATERIALIZED (
    SELECT FROM {schema}workflow_claim c
    WHERE c.workflow = $2 AND c.state IN ('completed', 'failed', 'cancelled')
    FOR SHARE
), queued AS (
    INSERT INTO {schema}workflow_queue AS q (namespace, workflow, visible_at)
    SELECT $1, $2, coalesce($5, now())
    FROM kind
    WHERE kind.ours AND (SELECT count(*) FROM over) = 0
    ON CONFLICT (namespace, workflow)
        DO UPDATE SET visible_at = least(q.visible_at - interval '1 microsecond', excluded.visible_at)
    RETURNING q.workflow
), recorded AS (
    INSERT INTO {schema}workflow_checkpoint AS r (workflow, step, value, arrived)
    SELECT $2, $3, $4::text::jsonb, true
    FROM kind
    WHERE kind.ours AND (SELECT count(*) FROM queued) >= 0
    ON CONFLICT (workflow, step) DO UPDATE SET step = r.step
    RETURNING r.xmax = 0 AS first, CASE WHEN r.xmax <> 0 THEN r.value::text END AS value
)
SELECT first, value FROM recorded
