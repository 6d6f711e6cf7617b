-- Removes the records of a workflow.
-- ?1 workflow. Runs under the file's write lock. Bound: the records of the workflow.
DELETE FROM workflow_checkpoint WHERE workflow = ?1
