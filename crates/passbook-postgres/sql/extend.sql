-- Hides deliveries for another lease, and says which it still held. Locks queue rows in the order of the workflows, skipping
-- those that others hold. `IS TRUE` for the reason that renew.sql gives.
-- $1 namespaces, $2 workflows, $3 receipts, $4 now, $5 lease
WITH queued AS MATERIALIZED (
    SELECT a.namespace, a.workflow
    FROM (
        SELECT * FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::timestamptz[])) AS a (namespace, workflow, receipt) ORDER BY a.workflow
    ) a
    CROSS JOIN LATERAL (
        SELECT
        FROM {schema}workflow_queue q
        WHERE q.namespace = a.namespace AND q.workflow = a.workflow AND (q.visible_at = a.receipt) IS TRUE
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) q
)
INSERT INTO {schema}workflow_queue AS q (namespace, workflow, visible_at)
SELECT queued.namespace, queued.workflow, coalesce($4, now()) + $5::interval
FROM queued
ON CONFLICT (namespace, workflow) DO UPDATE SET visible_at = excluded.visible_at
RETURNING q.namespace, q.workflow, q.visible_at
