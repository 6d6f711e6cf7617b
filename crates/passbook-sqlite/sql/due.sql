-- What is due in one namespace, the longest waiting first, and of equals the one queued first.
-- ?1 namespace, ?2 now, ?3 limit. Decides under the file's write lock; without it, it is only a look. Bound: the limit.
SELECT workflow FROM workflow_queue WHERE namespace = ?1 AND visible_at <= ?2 ORDER BY visible_at LIMIT ?3
