-- The narrow tables with so many dead rows that claims have to walk over them.
SELECT relname::text
FROM pg_stat_user_tables
WHERE schemaname = $1
  AND relname IN ('ready', 'leases', 'due', 'waits', 'lanes')
  AND n_dead_tup > greatest(CASE relname WHEN 'lanes' THEN 2000 ELSE 20000 END, n_live_tup / 20);
