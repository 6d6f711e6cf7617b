-- Reads why a claim was not granted. Locks nothing.
-- $1 workflow
SELECT coalesce(state IN ('completed', 'failed', 'cancelled'), false) AS over FROM {schema}workflow_claim WHERE workflow = $1
