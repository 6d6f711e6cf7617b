-- Hides due workflows of one namespace under their receipt.
-- ?1 namespace, ?2 JSON array of workflows, ?3 receipt. Runs after `due` in its transaction. Bound: the workflows given.
UPDATE workflow_queue SET visible_at = ?3
FROM json_each(?2) AS asked
WHERE workflow_queue.namespace = ?1 AND workflow_queue.workflow = asked.value
