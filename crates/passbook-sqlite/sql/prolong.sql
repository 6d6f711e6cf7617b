-- Gives every live claim back the time for which a transaction kept all renewals out, so that nobody loses a claim for
-- having been kept waiting; those that had run out before it began stay run out. The transaction's own claim gets a
-- whole lease, as from a renewal.
-- ?1 workflow, ?2 token, ?3 held until, ?4 when the transaction began, ?5 how long it has kept the lock.
-- Runs under the file's write lock. Bound: the claims of running passes.
UPDATE workflow_claim
SET held_until = CASE WHEN workflow = ?1 THEN max(held_until, ?3) ELSE held_until + ?5 END
WHERE open AND (held_until > ?4 OR (workflow = ?1 AND token = ?2))
