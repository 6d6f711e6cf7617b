-- Closes the mark, with all savepoints that the effect has left open in it. Fails when the effect has ended the
-- transaction, be it with a new one after it. Locks nothing.
RELEASE SAVEPOINT passbook_effect
