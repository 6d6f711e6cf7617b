-- Reads where one workflow stands, as the view `workflow_status` does for all, at the store's own time. Locks nothing. The
-- queue is searched by id alone only for a workflow whose kind no program has told: by one index look-up for each namespace,
-- which are found one after the other in the same index.
-- $1 workflow, $2 now
SELECT
    $1 AS workflow,
    coalesce(kind.namespace, queue.namespace, '') AS namespace,
    CASE
        WHEN claim.state IN ('completed', 'failed', 'cancelled') THEN claim.state
        WHEN claim.held_until > coalesce($2, now()) THEN 'running'
        WHEN queue.visible_at <= coalesce($2, now()) THEN 'ready'
        WHEN claim.state IN ('sleeping', 'waiting') THEN claim.state
        WHEN queue.visible_at IS NOT NULL THEN 'ready'
        ELSE 'waiting'
    END AS state,
    coalesce(claim.waits_for, '{}') AS waits_for,
    claim.wake_at,
    coalesce(claim.attempts, 0) AS attempts,
    claim.error,
    claim.running,
    records.count AS records,
    input.recorded_at AS started_at,
    claim.finished_at
FROM (SELECT count(*) FROM {schema}workflow_checkpoint r WHERE r.workflow = $1) AS records (count)
LEFT JOIN {schema}workflow_checkpoint input ON input.workflow = $1 AND input.step = ':input'
LEFT JOIN {schema}workflow_claim claim ON claim.workflow = $1
CROSS JOIN LATERAL (SELECT coalesce(input.namespace, claim.namespace) AS namespace) kind
LEFT JOIN LATERAL (
    SELECT q.namespace, q.visible_at FROM {schema}workflow_queue q
    WHERE q.namespace = kind.namespace AND q.workflow = $1
    UNION ALL
    SELECT q.namespace, q.visible_at
    FROM (
        WITH RECURSIVE known AS (
            (SELECT q.namespace FROM {schema}workflow_queue q ORDER BY q.namespace LIMIT 1)
            UNION ALL
            SELECT next.namespace
            FROM known
            CROSS JOIN LATERAL (
                SELECT q.namespace FROM {schema}workflow_queue q
                WHERE q.namespace > known.namespace
                ORDER BY q.namespace
                LIMIT 1
            ) next
        )
        SELECT known.namespace FROM known
    ) known
    CROSS JOIN LATERAL (
        SELECT q.namespace, q.visible_at FROM {schema}workflow_queue q
        WHERE q.namespace = known.namespace AND q.workflow = $1
        LIMIT 1
    ) q
    WHERE kind.namespace IS NULL
    LIMIT 1
) queue ON true
WHERE records.count > 0
   OR queue.visible_at IS NOT NULL
   OR claim.state IS NOT NULL
   OR claim.open
