-- The order and the time of a record, drawn by defaults, so that a losing write moves neither and a writer that does not
-- know the columns fills them all the same. Rows that were there before are numbered in the order in which they stand.
CREATE SEQUENCE IF NOT EXISTS {schema}workflow_checkpoint_seq;
ALTER TABLE {schema}workflow_checkpoint
    ADD COLUMN IF NOT EXISTS seq bigint NOT NULL DEFAULT nextval('{schema}workflow_checkpoint_seq'),
    ADD COLUMN IF NOT EXISTS recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN IF NOT EXISTS namespace text;
COMMENT ON COLUMN {schema}workflow_checkpoint.namespace IS 'the kind of the workflow; only on the record of its input';

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

-- Both tables are updated far more often than they grow: room in the page keeps an update of a claim off its index, and
-- dead rows are cleared away before they slow the taking down.
ALTER TABLE {schema}workflow_claim SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
ALTER TABLE {schema}workflow_queue SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- For a person with psql: what runs, when, what it waits for, why it failed.
CREATE OR REPLACE VIEW {schema}workflow_status AS
SELECT
    known.workflow,
    coalesce(input.namespace, known.namespace, '') AS namespace,
    CASE
        WHEN claim.state IN ('completed', 'failed', 'cancelled') THEN claim.state
        WHEN claim.held_until > now() THEN 'running'
        WHEN queue.visible_at <= now() THEN 'ready'
        WHEN claim.state IN ('sleeping', 'waiting') THEN claim.state
        WHEN queue.visible_at IS NOT NULL THEN 'ready'
        ELSE 'waiting'
    END AS state,
    coalesce(claim.waits_for, '{}') AS waits_for,
    claim.wake_at,
    coalesce(claim.attempts, 0) AS attempts,
    claim.error,
    claim.running,
    (SELECT count(*) FROM {schema}workflow_checkpoint r WHERE r.workflow = known.workflow) AS records,
    input.recorded_at AS started_at,
    claim.finished_at
FROM (
    SELECT c.workflow, c.namespace
    FROM {schema}workflow_claim c
    WHERE c.state IS NOT NULL OR c.open OR c.held_until > now()
    UNION
    SELECT q.workflow, q.namespace
    FROM {schema}workflow_queue q
    WHERE NOT EXISTS (
        SELECT FROM {schema}workflow_claim c
        WHERE c.workflow = q.workflow AND (c.state IS NOT NULL OR c.open OR c.held_until > now())
    )
) known
LEFT JOIN {schema}workflow_checkpoint input ON input.workflow = known.workflow AND input.step = ':input'
LEFT JOIN {schema}workflow_claim claim ON claim.workflow = known.workflow
LEFT JOIN {schema}workflow_queue queue
    ON queue.namespace = coalesce(input.namespace, known.namespace) AND queue.workflow = known.workflow;
