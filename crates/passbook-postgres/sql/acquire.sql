-- Takes what is due and claims it. Locks queue rows (skipping those that others hold), then claim rows in the order of the
-- workflows. The room is shared out in turn among the namespaces before anything is locked, so that no row is leased that is
-- not handed out. Rows are rewritten by upsert because its index look-up is no choice of the planner. A row comes back for
-- each delivery, with a token where the claim was granted; one row without a workflow when there is none.
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
), hidden AS (
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
), granted AS (
    INSERT INTO {schema}workflow_claim AS held (workflow, token, held_until, open, namespace)
    SELECT DISTINCT ON (due.workflow) due.workflow, 1, coalesce((SELECT $3::timestamptz), now()) + (SELECT $4::interval), true, due.namespace
    FROM due
    ORDER BY due.workflow
    ON CONFLICT (workflow) DO UPDATE SET
        token = held.token + 1,
        held_until = excluded.held_until,
        attempts = held.attempts + CASE WHEN held.open THEN 1 ELSE 0 END,
        open = true,
        namespace = excluded.namespace
    WHERE (held.state IS NULL OR held.state NOT IN ('completed', 'failed', 'cancelled'))
      AND CASE WHEN isfinite(held.held_until)
            THEN excluded.held_until - held.held_until >= (SELECT $4::interval)
            ELSE held.held_until < excluded.held_until END
    RETURNING held.workflow, held.namespace, held.token, held.attempts, held.running
)
SELECT
    coalesce((SELECT $3::timestamptz), now()) AS now,
    (
        SELECT min(next.visible_at)
        FROM unnest((SELECT $1::text[])) AS w (namespace)
        CROSS JOIN LATERAL (
            SELECT q.visible_at
            FROM {schema}workflow_queue q
            WHERE q.namespace = w.namespace AND q.visible_at > coalesce((SELECT $3::timestamptz), now()) AND q.visible_at < 'infinity'
            ORDER BY q.visible_at
            LIMIT 1
        ) next
    ) AS next_due,
    taken.namespace, taken.workflow, taken.visible_at, taken.token, taken.attempts, taken.running,
    CASE WHEN taken.token IS NULL THEN (
        SELECT c.state IN ('completed', 'failed', 'cancelled')
        FROM {schema}workflow_claim c
        WHERE c.workflow = taken.workflow
    ) END AS over
FROM (SELECT 1) one
LEFT JOIN (
    SELECT hidden.namespace, hidden.workflow, hidden.visible_at, granted.token, granted.attempts, granted.running
    FROM hidden
    LEFT JOIN granted ON granted.workflow = hidden.workflow AND granted.namespace = hidden.namespace
) taken ON true
