-- Files values in many inboxes, each as in deliver.sql. Takes the advisory locks without waiting, so that a workflow which
-- somebody's open transaction speaks to is left out and holds nobody up; then locks the queue rows in the order of the
-- workflows, and only then draws the numbers, in the order in which the values were asked for. No row comes back for one that
-- was left out.
-- $1 namespaces, $2 workflows, $3 values, $4 now
WITH asked AS MATERIALIZED (
    SELECT *
    FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[])) WITH ORDINALITY AS a (namespace, workflow, value, place)
    ORDER BY a.workflow, a.place
), free AS MATERIALIZED (
    SELECT asked.namespace, asked.workflow, asked.value, asked.place
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
    SELECT DISTINCT ON (known.workflow, known.namespace) known.namespace, known.workflow, coalesce($4, now())
    FROM known
    WHERE known.of_kind AND NOT known.over
    ORDER BY known.workflow, known.namespace
    ON CONFLICT (namespace, workflow)
        DO UPDATE SET visible_at = least(q.visible_at - interval '1 microsecond', excluded.visible_at)
    RETURNING q.workflow
), drawn AS MATERIALIZED (
    SELECT sendable.workflow, sendable.value, sendable.place, nextval('{schema}workflow_checkpoint_seq') AS seq
    FROM (
        SELECT known.workflow, known.value, known.place
        FROM known
        WHERE known.of_kind AND (SELECT count(*) FROM queued) >= 0
        ORDER BY known.workflow, known.place
    ) sendable
), recorded AS (
    INSERT INTO {schema}workflow_checkpoint (workflow, step, value, seq, arrived)
    SELECT drawn.workflow, 'inbox:' || lpad(drawn.seq::text, 20, '0'), drawn.value::jsonb, drawn.seq, true
    FROM drawn
)
SELECT known.place - 1 AS place, known.of_kind, 'inbox:' || lpad(drawn.seq::text, 20, '0') AS step
FROM known
FULL JOIN drawn ON drawn.place = known.place
