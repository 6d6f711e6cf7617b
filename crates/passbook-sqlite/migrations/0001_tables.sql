-- The three tables as any program may know them. Made only where they are missing, so that a database which holds
-- nothing but these, with rows in it, is upgraded in place.
-- Times are microseconds since 1970, values are JSON text.
CREATE TABLE IF NOT EXISTS workflow_checkpoint (
    workflow TEXT NOT NULL,
    step TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (workflow, step)
);
CREATE TABLE IF NOT EXISTS workflow_claim (
    workflow TEXT NOT NULL PRIMARY KEY,
    token INTEGER NOT NULL,
    held_until INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS workflow_queue (
    namespace TEXT NOT NULL,
    workflow TEXT NOT NULL,
    visible_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, workflow)
);
CREATE INDEX IF NOT EXISTS workflow_queue_visible_at ON workflow_queue (namespace, visible_at);
