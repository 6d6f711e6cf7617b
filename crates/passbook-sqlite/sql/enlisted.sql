-- Makes a start, arrive or deliver part of the caller's transaction.
RELEASE SAVEPOINT passbook_enlist
