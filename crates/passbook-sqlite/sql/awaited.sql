-- Which of some waits are for a key that is recorded, by their places.
-- ?1 JSON array of [workflow, key, ..]. Runs under the file's write lock. Bound: a look-up for each key given.
SELECT asked.key
FROM json_each(?1) AS asked
WHERE EXISTS (
    SELECT 1
    FROM json_each(asked.value) AS key
    CROSS JOIN workflow_checkpoint AS record ON record.workflow = asked.value ->> 0 AND record.step = key.value
    WHERE key.key > 0
)
