-- Makes due now what `done` has left: a wakeup came after the delivery was taken.
-- ?1 JSON array of [namespace, workflow, ..], ?2 now. Runs after `done` in its transaction. Bound: the rows given.
UPDATE workflow_queue SET visible_at = min(visible_at, ?2)
FROM json_each(?1) AS asked
WHERE workflow_queue.namespace = asked.value ->> 0 AND workflow_queue.workflow = asked.value ->> 1
