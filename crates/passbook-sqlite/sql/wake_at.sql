-- Answers for deliveries, each due again at a moment, or now when a wakeup came after it was taken. A cancelled workflow
-- has no row, and gets none.
-- ?1 JSON array of [namespace, workflow, receipt, when], ?2 now. Runs under the file's write lock. Bound: the rows given.
UPDATE workflow_queue
SET visible_at = CASE WHEN visible_at = asked.value ->> 2 THEN asked.value ->> 3 ELSE min(visible_at, ?2) END
FROM json_each(?1) AS asked
WHERE workflow_queue.namespace = asked.value ->> 0 AND workflow_queue.workflow = asked.value ->> 1
