-- Marks the place in a caller's transaction to which a start, arrive or deliver that fails goes back.
SAVEPOINT passbook_enlist
