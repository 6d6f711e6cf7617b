-- Marks the place in the transaction from which a `transact` effect runs.
-- Runs under the file's write lock, and locks nothing more.
SAVEPOINT passbook_effect
