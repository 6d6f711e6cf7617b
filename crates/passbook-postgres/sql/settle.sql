-- Ends a pass: writes the result or the wait, releases the claim, answers for the delivery, all or nothing. Locks the queue
-- row first, then the claim row, then the record of the result. A queue row under another `visible_at` than the receipt
-- tells of a wakeup that came meanwhile, and stays ready now; so it does when a key that is waited for is recorded. False, and
-- nothing written, when the token is not the highest or the claim is settled already. With a NULL namespace it answers for no
-- delivery: the half that a split pair uses. `seen` is read while the queue row is locked: what comes later has a higher number.
-- `recorded` says that the result was the first.
-- $1 namespace, $2 workflow, $3 token, $4 receipt, $5 now, $6 state, $7 waits_for, $8 wake_at, $9 error, $10 result
WITH queued AS MATERIALIZED (
    SELECT q.visible_at
    FROM {schema}workflow_queue q
    WHERE q.namespace = $1 AND q.workflow = $2
    FOR UPDATE
), held AS (
    UPDATE {schema}workflow_claim c SET
        held_until = coalesce($5, now()),
        open = false,
        state = $6,
        waits_for = $7,
        wake_at = $8,
        attempts = CASE
            WHEN $9::text IS NOT NULL THEN c.attempts + 1
            WHEN $6 = 'ready' THEN c.attempts
            ELSE 0 END,
        error = CASE WHEN $6 = 'ready' THEN c.error ELSE $9::text END,
        running = NULL,
        finished_at = CASE WHEN $6 IN ('completed', 'failed') THEN coalesce($5, now()) END
    WHERE c.workflow = $2 AND c.token = $3 AND c.open AND (SELECT count(*) FROM queued) >= 0
    RETURNING c.workflow
), result AS (
    INSERT INTO {schema}workflow_checkpoint (workflow, step, value)
    SELECT held.workflow, ':result', $10::text::jsonb
    FROM held
    WHERE $10::text IS NOT NULL
    ON CONFLICT (workflow, step) DO NOTHING
    RETURNING workflow
), woken AS MATERIALIZED (
    SELECT queued.visible_at <> $4 OR $6 = 'ready' OR EXISTS (
        SELECT
        FROM unnest($7::text[]) AS w (step)
        CROSS JOIN LATERAL (
            SELECT FROM {schema}workflow_checkpoint r WHERE r.workflow = $2 AND r.step = w.step LIMIT 1
        ) r
    ) AS now
    FROM queued
), answered AS (
    DELETE FROM {schema}workflow_queue q
    WHERE q.namespace = $1 AND q.workflow = $2
      AND (SELECT count(*) FROM held) = 1
      AND $8::timestamptz IS NULL AND NOT (SELECT woken.now FROM woken)
), moved AS (
    UPDATE {schema}workflow_queue q SET
        visible_at = CASE WHEN (SELECT woken.now FROM woken) THEN least(q.visible_at, coalesce($5, now())) ELSE $8 END
    WHERE q.namespace = $1 AND q.workflow = $2
      AND (SELECT count(*) FROM held) = 1
      AND ($8::timestamptz IS NOT NULL OR (SELECT woken.now FROM woken))
)
SELECT
    EXISTS (SELECT FROM held) AS held,
    coalesce((SELECT woken.now FROM woken), true) AS woken,
    EXISTS (SELECT FROM result) AS recorded,
    (SELECT drawn.last_value FROM {schema}workflow_checkpoint_seq drawn, (SELECT count(*) FROM queued) q) AS seen
