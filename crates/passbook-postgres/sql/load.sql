-- Reads the checkpoints of some workflows, each in first-recorded order. Its own statement, and not part of the claim of a
-- workflow that had a holder before: there it would read the snapshot from before the row lock and miss what that holder was
-- just committing. Locks nothing. The look-ups stand in a subquery of their own so that the indexes are used whatever the
-- statistics say. Of a workflow whose records are known up to some place, only what was sent to it and stands after that.
-- $1 workflows, $2 the places up to which they are known, NULL for all
SELECT w.place - 1 AS place, r.step, r.value::text AS value, r.seq, r.recorded_at, r.namespace
FROM unnest((SELECT $1::text[]), (SELECT $2::bigint[])) WITH ORDINALITY AS w (workflow, since, place)
CROSS JOIN LATERAL (
    SELECT c.step, c.value, c.seq, c.recorded_at, c.namespace
    FROM {schema}workflow_checkpoint c
    WHERE w.since IS NULL AND c.workflow = w.workflow
    UNION ALL
    SELECT c.step, c.value, c.seq, c.recorded_at, c.namespace
    FROM {schema}workflow_checkpoint c
    WHERE c.workflow = w.workflow AND c.arrived AND c.seq > w.since
    OFFSET 0
) r
ORDER BY w.place, r.seq
