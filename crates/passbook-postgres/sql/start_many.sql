-- Starts many workflows, each as in start.sql. Takes their advisory locks without waiting, so that a workflow which somebody's
-- open transaction has started or signalled is left out and holds nobody up; then locks the records of the inputs and the
-- queue rows, in the order of the workflows. No row comes back for one that was left out.
-- $1 namespaces, $2 workflows, $3 inputs, $4 now
WITH asked AS MATERIALIZED (
    SELECT *
    FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[])) WITH ORDINALITY AS a (namespace, workflow, input, place)
    ORDER BY a.workflow
), free AS MATERIALIZED (
    SELECT asked.namespace, asked.workflow, asked.input, asked.place
    FROM asked
    WHERE pg_try_advisory_xact_lock(hashtextextended('workflow:' || asked.workflow, 0))
), recorded AS (
    INSERT INTO {schema}workflow_checkpoint AS r (workflow, step, value, namespace)
    SELECT free.workflow, ':input', free.input::jsonb, free.namespace
    FROM free
    ON CONFLICT (workflow, step) DO UPDATE SET step = r.step
    RETURNING r.workflow, r.namespace, r.xmax = 0 AS first, CASE WHEN r.xmax <> 0 THEN r.value::text END AS value
), queued AS (
    INSERT INTO {schema}workflow_queue AS q (namespace, workflow, visible_at)
    SELECT recorded.namespace, recorded.workflow, coalesce($4, now())
    FROM recorded
    WHERE recorded.first
    ORDER BY recorded.workflow
    ON CONFLICT (namespace, workflow)
        DO UPDATE SET visible_at = least(q.visible_at - interval '1 microsecond', excluded.visible_at)
)
SELECT
    free.place - 1 AS place,
    recorded.first,
    coalesce(recorded.namespace, free.namespace) = free.namespace AS of_kind,
    recorded.value
FROM free
FULL JOIN recorded ON recorded.workflow = free.workflow
