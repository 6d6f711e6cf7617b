-- Ends many passes, each as in settle.sql. Locks queue rows, skipping those that others hold, then claim rows, then the records
-- of the results, in the order of the workflows. No row comes back for a pass whose queue row is held by somebody or is gone:
-- that one is settled alone. Rows are rewritten by upsert; the rows to delete are said to be few (the ranges that always hold),
-- because the plan of a statement prepared over empty tables would read the whole queue for more.
-- $1 namespaces, $2 workflows, $3 tokens, $4 receipts, $5 now, $6 states, $7 waits_for as JSON, $8 wake_at, $9 errors, $10 results
WITH asked AS MATERIALIZED (
    SELECT *
    FROM unnest(
        (SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::bigint[]), (SELECT $4::timestamptz[]), (SELECT $6::text[]), (SELECT $7::text[]), (SELECT $8::timestamptz[]), (SELECT $9::text[]), (SELECT $10::text[])
    ) WITH ORDINALITY AS a (namespace, workflow, token, receipt, state, waits_for, wake_at, error, result, place)
    ORDER BY a.workflow
), queued AS MATERIALIZED (
    SELECT
        asked.*,
        q.visible_at <> asked.receipt OR asked.state = 'ready' OR awaited.there IS NOT NULL AS woken,
        least(q.visible_at, coalesce($5, now())) AS at_once
    FROM asked
    CROSS JOIN LATERAL (
        SELECT q.visible_at
        FROM {schema}workflow_queue q
        WHERE q.namespace = asked.namespace AND q.workflow = asked.workflow
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) q
    LEFT JOIN LATERAL (
        SELECT true AS there
        FROM jsonb_array_elements_text(asked.waits_for::jsonb) AS w (step)
        CROSS JOIN LATERAL (
            SELECT
            FROM {schema}workflow_checkpoint r
            WHERE r.workflow = asked.workflow AND r.step = w.step
            LIMIT 1
        ) r
        LIMIT 1
    ) awaited ON true
), held AS (
    INSERT INTO {schema}workflow_claim AS c (workflow, token, held_until, state, waits_for, wake_at, attempts, error, finished_at)
    SELECT
        queued.workflow,
        queued.token,
        coalesce($5, now()),
        queued.state,
        CASE WHEN queued.waits_for IS NULL THEN '{}'
            ELSE ARRAY(SELECT jsonb_array_elements_text(queued.waits_for::jsonb)) END,
        queued.wake_at,
        CASE WHEN queued.error IS NOT NULL THEN 1 ELSE 0 END,
        queued.error,
        CASE WHEN queued.state IN ('completed', 'failed') THEN coalesce($5, now()) END
    FROM queued
    ON CONFLICT (workflow) DO UPDATE SET
        held_until = excluded.held_until,
        open = false,
        state = excluded.state,
        waits_for = excluded.waits_for,
        wake_at = excluded.wake_at,
        attempts = CASE
            WHEN excluded.error IS NOT NULL THEN c.attempts + 1
            WHEN excluded.state = 'ready' THEN c.attempts
            ELSE 0 END,
        error = CASE WHEN excluded.state = 'ready' THEN c.error ELSE excluded.error END,
        running = NULL,
        finished_at = excluded.finished_at
    WHERE c.token = excluded.token AND c.open
    RETURNING c.workflow
), ended AS MATERIALIZED (
    SELECT queued.*, queued.workflow IN (SELECT held.workflow FROM held) AS held
    FROM queued
), result AS (
    INSERT INTO {schema}workflow_checkpoint (workflow, step, value)
    SELECT ended.workflow, ':result', ended.result::jsonb
    FROM ended
    WHERE ended.held AND ended.result IS NOT NULL
    ON CONFLICT (workflow, step) DO NOTHING
    RETURNING workflow
), moved AS (
    INSERT INTO {schema}workflow_queue AS q (namespace, workflow, visible_at)
    SELECT ended.namespace, ended.workflow, CASE WHEN ended.woken THEN ended.at_once ELSE ended.wake_at END
    FROM ended
    WHERE ended.held AND (ended.woken OR ended.wake_at IS NOT NULL)
    ON CONFLICT (namespace, workflow) DO UPDATE SET visible_at = excluded.visible_at
), answered AS (
    DELETE FROM {schema}workflow_queue q
    USING (
        SELECT ended.namespace, ended.workflow
        FROM ended
        WHERE ended.held AND NOT ended.woken AND ended.wake_at IS NULL
          AND ended.place > 0 AND ended.place < 1000000
    ) gone
    WHERE q.namespace = gone.namespace AND q.workflow = gone.workflow
)
SELECT
    ended.place - 1 AS place,
    ended.held,
    ended.woken,
    ended.workflow IN (SELECT result.workflow FROM result) AS recorded,
    (SELECT drawn.last_value FROM {schema}workflow_checkpoint_seq drawn, (SELECT count(*) FROM queued) q) AS seen
FROM ended
