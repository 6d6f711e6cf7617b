-- Records steps, each unless its key is taken or its claim is below the highest token: such a one is not inserted, and of
-- two for one key the first wins. Gives the places of those that were. They take the numbers after the last one drawn, in
-- their order; `advance` moves it.
-- ?1 JSON array of [workflow, step, value, token], ?2 time. Runs under the file's write lock, so no claim can be in flight
-- while the token is compared. Bound: the rows given.
INSERT INTO workflow_checkpoint (workflow, step, value, seq, recorded_at)
SELECT asked.value ->> 0, asked.value ->> 1, asked.value ->> 2, sequence.seq + asked.key + 1, ?2
FROM json_each(?1) AS asked
CROSS JOIN workflow_claim AS claim ON claim.workflow = asked.value ->> 0 AND claim.token <= asked.value ->> 3
CROSS JOIN workflow_sequence AS sequence
WHERE true
ON CONFLICT (workflow, step) DO NOTHING
RETURNING seq - 1 - (SELECT seq FROM workflow_sequence)
