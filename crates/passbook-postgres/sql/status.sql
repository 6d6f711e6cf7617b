-- Reads where one workflow stands; no row for one that nobody has written of. Locks nothing.
-- $1 workflow, $2 now
SELECT * FROM {schema}workflow_stand($1, coalesce($2, now()))
