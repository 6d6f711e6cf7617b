-- Removes the records: the second statement of a delete, so that its snapshot has what the last holder committed before the
-- fence was raised. Locks the records.
-- $1 workflow
DELETE FROM {schema}workflow_checkpoint WHERE workflow = $1
