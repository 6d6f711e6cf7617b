-- Files a value under a key that it draws under the workflow's advisory lock: whoever has read a key never sees a smaller
-- one appear. One record.
-- $1 workflow, $2 value
WITH locked AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(hashtextextended('workflow:' || $1, 0))
), drawn AS MATERIALIZED (
    SELECT nextval('{schema}workflow_checkpoint_seq') AS seq
    FROM (SELECT count(*) AS rows FROM locked) l
    WHERE l.rows >= 0
)
INSERT INTO {schema}workflow_checkpoint (workflow, step, value, seq, arrived)
SELECT $1, 'inbox:' || lpad(drawn.seq::text, 20, '0'), $2::text::jsonb, drawn.seq, true
FROM drawn
RETURNING step
