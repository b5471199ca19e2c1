-- How many dead rows claims may have to walk over.
SELECT relname::text, n_dead_tup, n_live_tup
FROM pg_stat_user_tables
WHERE schemaname = $1 AND relname IN ('ready', 'running')
ORDER BY relname;
