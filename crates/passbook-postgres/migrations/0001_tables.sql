-- The tables that every program of the field may know: what was done, who may write, and what is to run.
CREATE TABLE IF NOT EXISTS {schema}workflow_checkpoint (
    workflow text NOT NULL,
    step text NOT NULL,
    value jsonb NOT NULL,
    PRIMARY KEY (workflow, step)
);
CREATE TABLE IF NOT EXISTS {schema}workflow_claim (
    workflow text PRIMARY KEY,
    token bigint NOT NULL,
    held_until timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS {schema}workflow_queue (
    namespace text NOT NULL,
    workflow text NOT NULL,
    visible_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, workflow)
);
CREATE INDEX IF NOT EXISTS workflow_queue_visible_at ON {schema}workflow_queue (namespace, visible_at);
