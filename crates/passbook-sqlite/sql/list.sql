-- Where workflows stand, in the order of their ids, or one of them. The ids are found one by one, each by a probe of
-- three indexes, so that a page costs what it shows and not what the store holds.
-- ?1 the one workflow or null, ?2 only ids after this one, ?3 now, ?4 only this namespace or null, ?5 only this state or
-- null, ?6 limit. Reads one snapshot, locks nothing. Bound: the ids up to the last one shown.
WITH RECURSIVE id (workflow) AS (
    SELECT CASE WHEN ?1 IS NOT NULL THEN ?1 ELSE (
        SELECT min(workflow) FROM (
            SELECT min(workflow) AS workflow FROM workflow_checkpoint WHERE workflow > ?2
            UNION ALL SELECT min(workflow) FROM workflow_claim WHERE workflow > ?2
            UNION ALL SELECT min(workflow) FROM workflow_queue WHERE workflow > ?2
        )
    ) END
    UNION ALL
    SELECT (
        SELECT min(workflow) FROM (
            SELECT min(workflow) AS workflow FROM workflow_checkpoint WHERE workflow > id.workflow
            UNION ALL SELECT min(workflow) FROM workflow_claim WHERE workflow > id.workflow
            UNION ALL SELECT min(workflow) FROM workflow_queue WHERE workflow > id.workflow
        )
    )
    FROM id
    WHERE id.workflow IS NOT NULL AND ?1 IS NULL
),
known AS (
    SELECT
        id.workflow,
        claim.state,
        claim.held_until,
        claim.open,
        coalesce(claim.waits_for, '[]') AS waits_for,
        claim.wake_at,
        coalesce(claim.attempts, 0) AS attempts,
        claim.error,
        claim.running,
        claim.finished_at,
        input.recorded_at AS started_at,
        coalesce(
            input.namespace,
            claim.namespace,
            (SELECT namespace FROM workflow_queue WHERE workflow = id.workflow ORDER BY visible_at LIMIT 1),
            ''
        ) AS namespace,
        (SELECT min(visible_at) FROM workflow_queue WHERE workflow = id.workflow) AS visible_at,
        (SELECT count(*) FROM workflow_checkpoint WHERE workflow = id.workflow) AS records
    FROM id
    LEFT JOIN workflow_claim AS claim ON claim.workflow = id.workflow
    LEFT JOIN workflow_checkpoint AS input ON input.workflow = id.workflow AND input.step = ':input'
    WHERE id.workflow IS NOT NULL
),
shown AS (
    SELECT
        workflow,
        namespace,
        CASE
            WHEN state IN ('completed', 'failed', 'cancelled') THEN state
            WHEN held_until > ?3 THEN 'running'
            WHEN visible_at <= ?3 THEN 'ready'
            WHEN waits_for <> '[]' THEN 'waiting'
            WHEN wake_at IS NOT NULL THEN 'sleeping'
            WHEN visible_at IS NOT NULL THEN 'ready'
            ELSE 'waiting'
        END AS state,
        waits_for,
        wake_at,
        attempts,
        error,
        running,
        records,
        started_at,
        finished_at
    FROM known
    -- What `discard` left behind is a fence and no workflow.
    WHERE records > 0 OR visible_at IS NOT NULL OR state IS NOT NULL OR open OR held_until > ?3
)
SELECT * FROM shown
WHERE (?4 IS NULL OR namespace = ?4) AND (?5 IS NULL OR state = ?5)
LIMIT ?6
