-- The version of the schema. Locks nothing; decides under the file's write lock. Bound: one entry of the index.
SELECT coalesce(max(version), 0) FROM passbook_migration
