-- Takes a workflow out of the queue. Locks the queue row.
-- $1 namespace, $2 workflow
DELETE FROM {schema}workflow_queue WHERE namespace = $1 AND workflow = $2
