-- Reads the checkpoints of some workflows, each in first-recorded order. Its own statement, never part of a claim: there it
-- would read the snapshot from before the row lock and miss what the last holder was just committing. Locks nothing. The
-- look-up stands in a subquery of its own so that the index is used whatever the statistics say.
-- $1 workflows
SELECT w.place - 1 AS place, r.step, r.value::text AS value, r.seq, r.recorded_at, r.namespace
FROM unnest($1::text[]) WITH ORDINALITY AS w (workflow, place)
CROSS JOIN LATERAL (
    SELECT c.step, c.value, c.seq, c.recorded_at, c.namespace
    FROM {schema}workflow_checkpoint c
    WHERE c.workflow = w.workflow
    ORDER BY c.seq
    OFFSET 0
) r
ORDER BY w.place, r.seq
