-- Undoes a start, arrive or deliver that failed half-way, and nothing that the caller did before it.
ROLLBACK TO SAVEPOINT passbook_enlist
