-- Gives signs of life for many passes. Locks queue rows (skipping those that others hold: their turn comes at the next sign),
-- then claim rows, both in the order of the workflows. A row comes back for each pass asked for. Rows are looked up one by
-- one and rewritten by upsert, so that no plan depends on statistics; `IS TRUE` keeps the receipt out of the index's condition, as
-- all deliveries of one take share it and a look-up by it reads them all.
-- $1 namespaces, $2 workflows, $3 tokens, $4 receipts, $5 running, $6 now, $7 lease
WITH asked AS MATERIALIZED (
    SELECT *
    FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::bigint[]), (SELECT $4::timestamptz[]), (SELECT $5::text[]))
        WITH ORDINALITY AS a (namespace, workflow, token, receipt, running, place)
    ORDER BY a.workflow
), queued AS MATERIALIZED (
    SELECT asked.namespace, asked.workflow
    FROM asked
    CROSS JOIN LATERAL (
        SELECT
        FROM {schema}workflow_queue q
        WHERE q.namespace = asked.namespace AND q.workflow = asked.workflow AND (q.visible_at = asked.receipt) IS TRUE
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) q
), extended AS (
    INSERT INTO {schema}workflow_queue AS q (namespace, workflow, visible_at)
    SELECT queued.namespace, queued.workflow, coalesce($6, now()) + $7::interval
    FROM queued
    ON CONFLICT (namespace, workflow) DO UPDATE SET visible_at = excluded.visible_at
    RETURNING q.namespace, q.workflow, q.visible_at
), alive AS MATERIALIZED (
    SELECT asked.workflow, asked.token, asked.running
    FROM asked
    CROSS JOIN LATERAL (
        SELECT
        FROM {schema}workflow_claim c
        WHERE c.workflow = asked.workflow AND c.token = asked.token AND c.open
        LIMIT 1
        FOR NO KEY UPDATE
    ) c
    WHERE (SELECT count(*) FROM extended) >= 0
), renewed AS (
    INSERT INTO {schema}workflow_claim AS c (workflow, token, held_until, running)
    SELECT alive.workflow, alive.token, coalesce($6, now()) + $7::interval, alive.running
    FROM alive
    ON CONFLICT (workflow) DO UPDATE SET
        held_until = excluded.held_until,
        running = coalesce(excluded.running, c.running)
    RETURNING c.workflow, c.token
)
SELECT asked.place - 1 AS place, renewed.workflow IS NOT NULL AS alive, extended.visible_at
FROM asked
FULL JOIN renewed ON renewed.workflow = asked.workflow AND renewed.token = asked.token
FULL JOIN extended ON extended.workflow = asked.workflow AND extended.namespace = asked.namespace
