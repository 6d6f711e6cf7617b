-- Which of some workflows are due now, by their places.
-- ?1 JSON array of [namespace, workflow], ?2 now. Runs under the file's write lock. Bound: a row for each given.
SELECT asked.key
FROM json_each(?1) AS asked
CROSS JOIN workflow_queue AS queue
    ON queue.namespace = asked.value ->> 0 AND queue.workflow = asked.value ->> 1
WHERE queue.visible_at <= ?2
