-- Sends values to many workflows, each as in arrive.sql. Takes their advisory locks without waiting, so that a workflow which
-- somebody's open transaction has started or signalled is left out and holds nobody up; then locks the queue rows, then the
-- records, in the order of the workflows. No row comes back for one that was left out.
-- $1 namespaces, $2 workflows, $3 keys, $4 values, $5 now
WITH asked AS MATERIALIZED (
    SELECT *
    FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::text[])) WITH ORDINALITY AS a (namespace, workflow, key, value, place)
    ORDER BY a.workflow, a.place
), free AS MATERIALIZED (
    SELECT asked.namespace, asked.workflow, asked.key, asked.value, asked.place
    FROM asked
    WHERE pg_try_advisory_xact_lock(hashtextextended('workflow:' || asked.workflow, 0))
), known AS MATERIALIZED (
    SELECT
        free.*,
        coalesce((
            SELECT i.namespace = free.namespace
            FROM {schema}workflow_checkpoint i
            WHERE i.workflow = free.workflow AND i.step = ':input'
            LIMIT 1), true) AS of_kind,
        over.workflow IS NOT NULL AS over
    FROM free
    LEFT JOIN LATERAL (
        SELECT c.workflow
        FROM {schema}workflow_claim c
        WHERE c.workflow = free.workflow AND c.state IN ('completed', 'failed', 'cancelled')
        LIMIT 1
        FOR SHARE
    ) over ON true
), queued AS (
    INSERT INTO {schema}workflow_queue AS q (namespace, workflow, visible_at)
    SELECT DISTINCT ON (known.workflow, known.namespace) known.namespace, known.workflow, coalesce($5, now())
    FROM known
    WHERE known.of_kind AND NOT known.over
    ORDER BY known.workflow, known.namespace
    ON CONFLICT (namespace, workflow)
        DO UPDATE SET visible_at = least(q.visible_at - interval '1 microsecond', excluded.visible_at)
    RETURNING q.workflow
), recorded AS (
    INSERT INTO {schema}workflow_checkpoint AS r (workflow, step, value, arrived)
    SELECT known.workflow, known.key, known.value::jsonb, true
    FROM known
    WHERE known.of_kind AND (SELECT count(*) FROM queued) >= 0
    ORDER BY known.workflow, known.place
    ON CONFLICT (workflow, step) DO UPDATE SET step = r.step
    RETURNING r.workflow, r.step, r.xmax = 0 AS first, CASE WHEN r.xmax <> 0 THEN r.value::text END AS value
)
SELECT known.place - 1 AS place, known.of_kind, recorded.first, recorded.value
FROM known
FULL JOIN recorded ON recorded.workflow = known.workflow AND recorded.step = known.key
