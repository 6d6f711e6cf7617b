-- Takes what is due, without a claim: the half that a split pair uses. Locks queue rows, skipping those that others hold.
-- The room is shared out as in acquire.sql.
-- $1 namespaces, $2 limit, $3 now, $4 lease
WITH share AS MATERIALIZED (
    SELECT turns.namespace, count(*) AS share
    FROM (
        SELECT w.namespace, w.place, row_number() OVER (PARTITION BY w.place) AS turn
        FROM unnest((SELECT $1::text[])) WITH ORDINALITY AS w (namespace, place)
        CROSS JOIN LATERAL (
            SELECT FROM {schema}workflow_queue q
            WHERE q.namespace = w.namespace AND q.visible_at <= coalesce((SELECT $3::timestamptz), now())
            ORDER BY q.visible_at
            LIMIT (SELECT $2::bigint)
        ) q
        ORDER BY turn, w.place
        LIMIT (SELECT $2::bigint)
    ) turns
    GROUP BY turns.namespace
), due AS MATERIALIZED (
    SELECT q.namespace, q.workflow
    FROM share
    CROSS JOIN LATERAL (
        SELECT q.namespace, q.workflow
        FROM {schema}workflow_queue q
        WHERE q.namespace = share.namespace AND q.visible_at <= coalesce((SELECT $3::timestamptz), now())
        ORDER BY q.visible_at
        LIMIT share.share
        FOR UPDATE SKIP LOCKED
    ) q
    -- Says nothing new, except to the planner, who thinks that every share is large.
    LIMIT (SELECT $2::bigint)
)
INSERT INTO {schema}workflow_queue AS q (namespace, workflow, visible_at)
SELECT due.namespace, due.workflow, coalesce((SELECT $3::timestamptz), now()) + (SELECT $4::interval)
FROM due
ON CONFLICT (namespace, workflow) DO UPDATE SET
    -- No receipt of a row comes twice, even when a test's clock stands still.
    visible_at = CASE
        WHEN q.receipt >= excluded.visible_at AND q.receipt < excluded.visible_at + interval '1 millisecond'
        THEN q.receipt + interval '1 microsecond' ELSE excluded.visible_at END,
    receipt = CASE
        WHEN q.receipt >= excluded.visible_at AND q.receipt < excluded.visible_at + interval '1 millisecond'
        THEN q.receipt + interval '1 microsecond' ELSE excluded.visible_at END
RETURNING q.namespace, q.workflow, q.visible_at
