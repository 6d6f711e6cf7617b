-- Reads when the next workflow is due. Locks nothing. One index look-up for each namespace.
-- $1 namespaces, $2 now
SELECT min(next.visible_at) AS next_due, coalesce($2, now()) AS now
FROM unnest((SELECT $1::text[])) AS w (namespace)
CROSS JOIN LATERAL (
    SELECT q.visible_at
    FROM {schema}workflow_queue q
    WHERE q.namespace = w.namespace AND q.visible_at < 'infinity'
    ORDER BY q.visible_at
    LIMIT 1
) next
