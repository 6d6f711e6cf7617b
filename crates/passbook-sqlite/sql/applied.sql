-- Notes that a version of the schema is there.
-- ?1 version, ?2 name, ?3 time. Runs in the transaction that made it. Bound: one row.
INSERT INTO passbook_migration (version, name, applied_at) VALUES (?1, ?2, ?3)
