-- Reads one record. Locks nothing.
-- $1 workflow, $2 step
SELECT value::text AS value FROM {schema}workflow_checkpoint WHERE workflow = $1 AND step = $2
