-- Raises the fence of a workflow and forgets the rest. The row stays, so that tokens never start over.
-- ?1 workflow, ?2 now. Runs under the file's write lock. Bound: one row.
UPDATE workflow_claim SET
    token = token + 1,
    held_until = ?2,
    open = 0,
    namespace = NULL,
    state = NULL,
    waits_for = '[]',
    wake_at = NULL,
    attempts = 0,
    running = NULL,
    error = NULL,
    finished_at = NULL
WHERE workflow = ?1
