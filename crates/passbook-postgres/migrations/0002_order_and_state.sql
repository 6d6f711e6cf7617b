-- The order and the time of a record, drawn by defaults, so that a losing write moves neither and a writer that does not
-- know the columns fills them all the same. Rows that were there before are numbered in the order in which they stand.
CREATE SEQUENCE IF NOT EXISTS {schema}workflow_checkpoint_seq;
ALTER TABLE {schema}workflow_checkpoint
    ADD COLUMN IF NOT EXISTS seq bigint NOT NULL DEFAULT nextval('{schema}workflow_checkpoint_seq'),
    ADD COLUMN IF NOT EXISTS recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN IF NOT EXISTS namespace text,
    ADD COLUMN IF NOT EXISTS arrived boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN {schema}workflow_checkpoint.namespace IS 'the kind of the workflow; only on the record of its input';
COMMENT ON COLUMN {schema}workflow_checkpoint.arrived IS 'sent from outside, and not recorded by a pass; false also where another program wrote it';
-- What has come to a workflow whose pass knows everything else. Only of what was sent, so that a step pays nothing for it.
CREATE INDEX IF NOT EXISTS workflow_checkpoint_arrived ON {schema}workflow_checkpoint (workflow, seq) WHERE arrived;

-- What the last pass left. Written with the release of the claim, where the row is written anyway.
ALTER TABLE {schema}workflow_claim
    ADD COLUMN IF NOT EXISTS namespace text,
    ADD COLUMN IF NOT EXISTS state text,
    ADD COLUMN IF NOT EXISTS waits_for text[] NOT NULL DEFAULT '{}',
    ADD COLUMN IF NOT EXISTS wake_at timestamptz,
    ADD COLUMN IF NOT EXISTS attempts integer NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS open boolean NOT NULL DEFAULT false,
    ADD COLUMN IF NOT EXISTS running text,
    ADD COLUMN IF NOT EXISTS error text,
    ADD COLUMN IF NOT EXISTS finished_at timestamptz;
COMMENT ON COLUMN {schema}workflow_claim.state IS 'as last settled: ready, sleeping, waiting, completed, failed, cancelled; what it is now is in workflow_status';
COMMENT ON COLUMN {schema}workflow_claim.open IS 'a claim was granted and not settled since';
COMMENT ON COLUMN {schema}workflow_claim.running IS 'the step that was about to run, on a pass after a failed one';

ALTER TABLE {schema}workflow_queue ADD COLUMN IF NOT EXISTS receipt timestamptz;
COMMENT ON COLUMN {schema}workflow_queue.receipt IS 'the visible_at under which it was last taken; no two are equal';

-- Both tables are updated far more often than they grow: room in the page keeps an update of a claim off its index, and
-- dead rows are cleared away before they slow the taking down. Pages are kept when they are empty: giving them back takes a
-- lock that stops everybody, and a table of no pages is planned for as one that is read from end to end.
ALTER TABLE {schema}workflow_claim SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, vacuum_truncate = false);
ALTER TABLE {schema}workflow_queue SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, vacuum_truncate = false);

-- Where one workflow stands at a moment; no row for one that nobody has written of. The queue is searched by id alone only for a
-- workflow whose kind no program has told: by one index look-up for each namespace, which are found in the same index.
CREATE OR REPLACE FUNCTION {schema}workflow_stand(id text, moment timestamptz)
RETURNS TABLE (
    workflow text, namespace text, state text, waits_for text[], wake_at timestamptz, attempts integer, error text,
    running text, records bigint, started_at timestamptz, finished_at timestamptz
)
LANGUAGE sql STABLE AS $$
SELECT
    id,
    coalesce(kind.namespace, queue.namespace, ''),
    CASE
        WHEN claim.state IN ('completed', 'failed', 'cancelled') THEN claim.state
        WHEN claim.held_until > moment THEN 'running'
        WHEN queue.visible_at <= moment THEN 'ready'
        WHEN claim.waits_for <> '{}' THEN 'waiting'
        WHEN claim.wake_at IS NOT NULL THEN 'sleeping'
        WHEN queue.visible_at IS NOT NULL THEN 'ready'
        ELSE 'waiting'
    END,
    coalesce(claim.waits_for, '{}'),
    claim.wake_at,
    coalesce(claim.attempts, 0),
    claim.error,
    claim.running,
    records.count,
    input.recorded_at,
    claim.finished_at
FROM (SELECT count(*) FROM {schema}workflow_checkpoint r WHERE r.workflow = id) AS records (count)
LEFT JOIN {schema}workflow_checkpoint input ON input.workflow = id AND input.step = ':input'
LEFT JOIN {schema}workflow_claim claim ON claim.workflow = id
CROSS JOIN LATERAL (SELECT coalesce(input.namespace, claim.namespace) AS namespace) kind
LEFT JOIN LATERAL (
    SELECT q.namespace, q.visible_at FROM {schema}workflow_queue q
    WHERE q.namespace = kind.namespace AND q.workflow = id
    UNION ALL
    SELECT q.namespace, q.visible_at
    FROM (
        WITH RECURSIVE known AS (
            (SELECT q.namespace FROM {schema}workflow_queue q ORDER BY q.namespace LIMIT 1)
            UNION ALL
            SELECT next.namespace
            FROM known
            CROSS JOIN LATERAL (
                SELECT q.namespace FROM {schema}workflow_queue q
                WHERE q.namespace > known.namespace
                ORDER BY q.namespace
                LIMIT 1
            ) next
        )
        SELECT known.namespace FROM known
    ) known
    CROSS JOIN LATERAL (
        SELECT q.namespace, q.visible_at FROM {schema}workflow_queue q
        WHERE q.namespace = known.namespace AND q.workflow = id
        LIMIT 1
    ) q
    WHERE kind.namespace IS NULL
    LIMIT 1
) queue ON true
WHERE records.count > 0
   OR queue.visible_at IS NOT NULL
   OR claim.state IS NOT NULL
   OR claim.open
   OR claim.held_until > moment
$$;

-- For a person with psql: what runs, when, what it waits for, why it failed.
CREATE OR REPLACE VIEW {schema}workflow_status AS
SELECT stand.*
FROM (
    SELECT c.workflow FROM {schema}workflow_claim c
    UNION
    SELECT r.workflow FROM {schema}workflow_checkpoint r WHERE r.step = ':input'
) known
CROSS JOIN LATERAL {schema}workflow_stand(known.workflow, now()) AS stand;
