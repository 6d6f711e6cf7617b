-- Reads a page of workflows in the order of their ids. Locks nothing. For looking: it reads the view from the id on until the
-- page is full. Under a clock that a test moves, states are those of the server's time.
-- $1 namespace, $2 state, $3 after, $4 limit
SELECT *
FROM {schema}workflow_status s
WHERE ($1::text IS NULL OR s.namespace = $1)
  AND ($2::text IS NULL OR s.state = $2)
  AND ($3::text IS NULL OR s.workflow > $3)
ORDER BY s.workflow
LIMIT $4
