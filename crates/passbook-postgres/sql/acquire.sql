-- Takes what is due and claims it. Locks queue rows (skipping those that others hold), then claim rows in the order of the
-- workflows. The room is shared out in turn among the namespaces before anything is locked, so that no row is leased that is
-- not handed out. Rows are rewritten by upsert because its index look-up is no choice of the planner, and joined by full
-- joins because these are hashed, however few rows the planner expects. A row comes back for each delivery, with a token
-- where the claim was granted; one row without a workflow when there is none. What is due from before a namespace's moment
-- in $5 is not looked at: while a snapshot is held open, the index is full there of entries of rows that are gone.
-- `next_due` is looked for only when there was room left. While room is not scarce, `share` gives way to one that gives
-- every namespace all of it (statements.rs).
--
-- The checkpoint of a workflow that was never claimed before is read along, a row for each record: no last holder can be
-- just committing one. Who sends a value changes the queue row, and is waited for or comes after the lock, or it has changed
-- between this statement's snapshot and the lock: then what was locked is not what the snapshot sees at its place, and
-- `loaded` is false.
-- $1 namespaces, $2 limit, $3 now, $4 lease, $5 from when each namespace is looked at, NULL for everything
WITH wanted AS MATERIALIZED (
    SELECT w.namespace, coalesce(w.since, '-infinity') AS since, w.place
    FROM unnest((SELECT $1::text[]), (SELECT $5::timestamptz[])) WITH ORDINALITY AS w (namespace, since, place)
), share AS MATERIALIZED (
    SELECT turns.namespace, turns.since, count(*) AS share
    FROM (
        SELECT w.namespace, w.since, w.place, row_number() OVER (PARTITION BY w.place) AS turn
        FROM wanted w
        CROSS JOIN LATERAL (
            SELECT FROM {schema}workflow_queue q
            WHERE q.namespace = w.namespace
              AND q.visible_at >= w.since AND q.visible_at <= coalesce((SELECT $3::timestamptz), now())
            ORDER BY q.visible_at
            LIMIT (SELECT $2::bigint)
        ) q
        ORDER BY turn, w.place
        LIMIT (SELECT $2::bigint)
    ) turns
    GROUP BY turns.namespace, turns.since
), due AS MATERIALIZED (
    SELECT q.namespace, q.workflow, q.visible_at, q.ctid AS locked
    FROM share
    CROSS JOIN LATERAL (
        SELECT q.namespace, q.workflow, q.visible_at, q.ctid
        FROM {schema}workflow_queue q
        WHERE q.namespace = share.namespace
          AND q.visible_at >= share.since AND q.visible_at <= coalesce((SELECT $3::timestamptz), now())
        ORDER BY q.visible_at
        LIMIT share.share
        FOR UPDATE SKIP LOCKED
    ) q
    -- Says nothing new, except to the planner, who thinks that every share is large.
    LIMIT (SELECT $2::bigint)
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
    RETURNING held.workflow, held.namespace, held.token, held.attempts, held.running, held.token = 1 AND held.xmax = 0 AS new
)
SELECT
    coalesce((SELECT $3::timestamptz), now()) AS now,
    (
        SELECT min(next.visible_at)
        FROM wanted w
        CROSS JOIN LATERAL (
            SELECT q.visible_at
            FROM {schema}workflow_queue q
            WHERE q.namespace = w.namespace AND q.visible_at > coalesce((SELECT $3::timestamptz), now()) AND q.visible_at < 'infinity'
            ORDER BY q.visible_at
            LIMIT 1
        ) next
        WHERE (SELECT count(*) FROM due) < (SELECT $2::bigint)
    ) AS next_due,
    taken.namespace, taken.workflow, taken.visible_at, taken.was, taken.token, taken.attempts, taken.running,
    CASE WHEN taken.token IS NULL THEN (
        SELECT c.state IN ('completed', 'failed', 'cancelled')
        FROM {schema}workflow_claim c
        WHERE c.workflow = taken.workflow
    ) END AS over,
    coalesce(taken.loaded, false) AS loaded, r.step, r.value, r.seq, r.recorded_at, r.namespace AS kind
FROM (SELECT 1) one
LEFT JOIN (
    SELECT
        hidden.namespace, hidden.workflow, hidden.visible_at, greatest(due.visible_at, 'epoch') AS was, granted.token, granted.attempts,
        granted.running,
        granted.new AND EXISTS (SELECT FROM {schema}workflow_queue seen WHERE seen.ctid = due.locked) AS loaded
    FROM hidden
    FULL JOIN due ON due.namespace = hidden.namespace AND due.workflow = hidden.workflow
    FULL JOIN granted ON granted.workflow = hidden.workflow AND granted.namespace = hidden.namespace
    OFFSET 0
) taken ON true
LEFT JOIN LATERAL (
    SELECT c.step, c.value::text AS value, c.seq, c.recorded_at, c.namespace
    FROM {schema}workflow_checkpoint c
    WHERE taken.loaded AND c.workflow = taken.workflow
    ORDER BY c.seq
) r ON true
