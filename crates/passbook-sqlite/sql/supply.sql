-- Records values from outside, and the results of passes that end, each unless its key is taken or its workflow was started as another kind than named: such a
-- one is not inserted, and of two for one key the first wins. No fence: it must not fail because a pass is running. Gives
-- the places and keys of those that were. They take the numbers after the last one drawn, in their order; `advance` moves
-- it. The lock is held to the commit, so a later number commits later, and whoever has seen one of an inbox never sees a
-- smaller one appear.
-- ?1 JSON array of [workflow, key or null for the next of the inbox, value, namespace or null], ?2 time.
-- Runs under the file's write lock. Bound: the rows given.
INSERT INTO workflow_checkpoint (workflow, step, value, seq, recorded_at, namespace, arrived)
SELECT
    asked.value ->> 0,
    coalesce(asked.value ->> 1, printf('inbox:%020d', sequence.seq + asked.key + 1)),
    asked.value ->> 2,
    sequence.seq + asked.key + 1,
    ?2,
    CASE WHEN asked.value ->> 1 = ':input' THEN asked.value ->> 3 END,
    asked.value ->> 1 IS NOT ':result'
FROM json_each(?1) AS asked
CROSS JOIN workflow_sequence AS sequence
WHERE NOT EXISTS (
    SELECT 1
    FROM workflow_checkpoint AS input
    WHERE input.workflow = asked.value ->> 0 AND input.step = ':input' AND input.namespace <> asked.value ->> 3
)
ON CONFLICT (workflow, step) DO NOTHING
RETURNING seq - 1 - (SELECT seq FROM workflow_sequence), step
