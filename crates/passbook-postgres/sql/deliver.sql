-- Files a value in the inbox and makes the workflow ready. Takes the workflow's advisory lock (as `append` does), then locks
-- the queue row, and only then draws the number, so that whoever has read a number never sees a smaller one appear. A workflow
-- that is over is not queued; its claim row stays locked to the end, so that it cannot go on meanwhile and miss the wakeup. No
-- row comes back when the workflow was started as another kind; then nothing is written.
-- $1 namespace, $2 workflow, $3 value, $4 now
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
    SELECT $1, $2, coalesce($4, now())
    FROM kind
    WHERE kind.ours AND (SELECT count(*) FROM over) = 0
    ON CONFLICT (namespace, workflow)
        DO UPDATE SET visible_at = least(q.visible_at - interval '1 microsecond', excluded.visible_at)
    RETURNING q.workflow
), drawn AS MATERIALIZED (
    SELECT nextval('{schema}workflow_checkpoint_seq') AS seq
    FROM kind, (SELECT count(*) AS rows FROM queued) q
    WHERE kind.ours AND q.rows >= 0
)
INSERT INTO {schema}workflow_checkpoint (workflow, step, value, seq, arrived)
SELECT $2, 'inbox:' || lpad(drawn.seq::text, 20, '0'), $3::text::jsonb, drawn.seq, true
FROM drawn
RETURNING step
