-- The order and the time of a record. SQLite has no column default that draws a number, so a trigger does it: for a
-- program that knows only the base columns, and for our own inserts alike. A losing write inserts nothing, fires
-- nothing, and so moves neither.
ALTER TABLE workflow_checkpoint ADD COLUMN seq INTEGER;
ALTER TABLE workflow_checkpoint ADD COLUMN recorded_at INTEGER;
-- The kind of the workflow, on the `:input` row only.
ALTER TABLE workflow_checkpoint ADD COLUMN namespace TEXT;
-- Sent from outside, and not recorded by a pass; 0 also where another program wrote it.
ALTER TABLE workflow_checkpoint ADD COLUMN arrived INTEGER NOT NULL DEFAULT 0;
-- What has come to a workflow whose pass knows everything else. Only of what was sent, so that a step pays nothing for it.
CREATE INDEX workflow_checkpoint_arrived ON workflow_checkpoint (workflow, seq) WHERE arrived;

-- One row. `seq`: the last number handed out; a row id would be reused after a delete. `leased_until` and `ties`: the
-- last end of a lease and how often it came, so that no two deliveries share a receipt even when the clock stands still.
CREATE TABLE workflow_sequence (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL,
    leased_until INTEGER NOT NULL DEFAULT 0,
    ties INTEGER NOT NULL DEFAULT 0
);
INSERT INTO workflow_sequence (one, seq) SELECT 1, coalesce(max(rowid), 0) FROM workflow_checkpoint;

-- Records from before: in the order of their row ids, which is that of their inserts; their time is not known any more.
UPDATE workflow_checkpoint
SET seq = rowid, recorded_at = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000;

CREATE TRIGGER workflow_checkpoint_order AFTER INSERT ON workflow_checkpoint WHEN NEW.seq IS NULL
BEGIN
    UPDATE workflow_sequence SET seq = seq + 1;
    UPDATE workflow_checkpoint
    SET seq = (SELECT seq FROM workflow_sequence),
        recorded_at = coalesce(NEW.recorded_at, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000)
    WHERE workflow = NEW.workflow AND step = NEW.step;
END;

-- What the release of a claim leaves. `open`: a claim of ours is not settled yet.
ALTER TABLE workflow_claim ADD COLUMN namespace TEXT;
ALTER TABLE workflow_claim ADD COLUMN state TEXT;
ALTER TABLE workflow_claim ADD COLUMN waits_for TEXT NOT NULL DEFAULT '[]';
ALTER TABLE workflow_claim ADD COLUMN wake_at INTEGER;
ALTER TABLE workflow_claim ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workflow_claim ADD COLUMN open INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workflow_claim ADD COLUMN running TEXT;
ALTER TABLE workflow_claim ADD COLUMN error TEXT;
ALTER TABLE workflow_claim ADD COLUMN finished_at INTEGER;

-- The live claims, few among many rows: what a long transaction of `transact` prolongs.
CREATE INDEX workflow_claim_open ON workflow_claim (held_until) WHERE open;
-- Lists go by workflow over all kinds.
CREATE INDEX workflow_queue_workflow ON workflow_queue (workflow);
