-- Hides deliveries for another lease under their new receipt, and gives them; one that is no longer held stays as it is.
-- ?1 JSON array of [namespace, workflow, old receipt], ?2 new receipt. Runs under the file's write lock. Bound: the rows
-- given.
UPDATE workflow_queue SET visible_at = ?2
FROM json_each(?1) AS asked
WHERE workflow_queue.namespace = asked.value ->> 0
    AND workflow_queue.workflow = asked.value ->> 1
    AND workflow_queue.visible_at = asked.value ->> 2
RETURNING namespace, workflow
