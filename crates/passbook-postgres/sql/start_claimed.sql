-- As start.sql, and claims the workflow for a worker of this process that waits for it. Only one that nobody has written of is
-- claimed, and then the input is all that its pass has to know: any other is queued as start.sql does, and comes back without
-- a token. Takes the workflow's advisory lock without waiting, so that no slot is kept for what somebody's open transaction holds
-- up: then no row comes back, and nothing is written. Then locks the record of the input, the queue row, the claim row.
-- $1 namespace, $2 workflow, $3 input, $4 now, $5 lease
WITH locked AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(hashtextextended('workflow:' || $2, 0)) AS free
), fresh AS MATERIALIZED (
    SELECT
        NOT EXISTS (SELECT FROM {schema}workflow_checkpoint c WHERE c.workflow = $2)
        AND NOT EXISTS (SELECT FROM {schema}workflow_claim c WHERE c.workflow = $2) AS yes
    FROM locked
    WHERE locked.free
), recorded AS (
    INSERT INTO {schema}workflow_checkpoint AS r (workflow, step, value, namespace)
    SELECT $2, ':input', $3::text::jsonb, $1
    FROM fresh
    ON CONFLICT (workflow, step) DO UPDATE SET step = r.step
    RETURNING r.xmax = 0 AS first, r.namespace, CASE WHEN r.xmax <> 0 THEN r.value::text END AS value, r.seq, r.recorded_at
), queued AS (
    INSERT INTO {schema}workflow_queue AS q (namespace, workflow, visible_at, receipt)
    SELECT $1, $2, coalesce($4, now()) + lease.hidden, coalesce($4, now()) + lease.hidden
    FROM recorded
    CROSS JOIN (SELECT CASE WHEN fresh.yes THEN $5::interval ELSE interval '0' END AS hidden FROM fresh) lease
    WHERE recorded.first
    ON CONFLICT (namespace, workflow)
        DO UPDATE SET visible_at = least(q.visible_at - interval '1 microsecond', coalesce($4, now()))
    RETURNING q.visible_at, q.xmax = 0 AND q.visible_at > coalesce($4, now()) AS hidden
), granted AS (
    INSERT INTO {schema}workflow_claim (workflow, token, held_until, open, namespace)
    SELECT $2, 1, queued.visible_at, true, $1
    FROM queued
    WHERE queued.hidden
    ON CONFLICT (workflow) DO NOTHING
    RETURNING token
)
SELECT
    recorded.first, coalesce(recorded.namespace, $1) = $1 AS of_kind, recorded.value, recorded.seq, recorded.recorded_at,
    coalesce($4, now()) AS now, queued.visible_at, coalesce(queued.hidden, false) AS hidden, granted.token
FROM recorded
LEFT JOIN queued ON true
LEFT JOIN granted ON true
