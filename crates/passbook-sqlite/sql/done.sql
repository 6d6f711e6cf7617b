-- Answers for deliveries after which nothing is to be run. One that a later wakeup has changed stays.
-- ?1 JSON array of [namespace, workflow, receipt]. Runs under the file's write lock. Bound: the rows given.
DELETE FROM workflow_queue WHERE rowid IN (
    SELECT queue.rowid
    FROM json_each(?1) AS asked
    CROSS JOIN workflow_queue AS queue
        ON queue.namespace = asked.value ->> 0
        AND queue.workflow = asked.value ->> 1
        AND queue.visible_at = asked.value ->> 2
)
