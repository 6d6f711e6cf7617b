-- Records for many passes, each fenced as in record.sql. Locks claim rows in the order of the workflows, one look-up for
-- each so that no plan depends on statistics, then the records. Full joins are hashed, however few rows the planner expects.
-- No row comes back for a request whose token is below the highest.
-- $1 workflows, $2 steps, $3 values, $4 tokens
WITH asked AS MATERIALIZED (
    SELECT *
    FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::bigint[])) WITH ORDINALITY AS a (workflow, step, value, token, place)
    ORDER BY a.workflow, a.place
), held AS MATERIALIZED (
    SELECT asked.workflow, asked.step, asked.value, asked.place
    FROM asked
    CROSS JOIN LATERAL (
        SELECT
        FROM {schema}workflow_claim c
        WHERE c.workflow = asked.workflow AND c.token <= asked.token
        LIMIT 1
        FOR NO KEY UPDATE
    ) c
), recorded AS (
    INSERT INTO {schema}workflow_checkpoint AS r (workflow, step, value)
    SELECT held.workflow, held.step, held.value::jsonb
    FROM held
    ON CONFLICT (workflow, step) DO UPDATE SET step = r.step
    RETURNING r.workflow, r.step, r.xmax = 0 AS first, CASE WHEN r.xmax <> 0 THEN r.value::text END AS value
)
SELECT held.place - 1 AS place, recorded.first, recorded.value
FROM held
FULL JOIN recorded ON recorded.workflow = held.workflow AND recorded.step = held.step
