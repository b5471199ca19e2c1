-- The narrow tables with so many dead rows that claims have to walk over them, and which of them this role may vacuum.
SELECT
    relname::text,
    n_dead_tup,
    CASE
        WHEN current_setting('server_version_num')::int < 170000
            THEN pg_has_role((SELECT relowner FROM pg_class WHERE pg_class.oid = relid), 'USAGE')
        ELSE has_table_privilege(relid, 'MAINTAIN')
    END
FROM pg_stat_user_tables
WHERE schemaname = $1
  AND relname IN ('ready', 'running', 'scheduled', 'waiting', 'lanes')
  AND n_dead_tup > greatest(CASE relname WHEN 'lanes' THEN 2000 ELSE 20000 END, n_live_tup / 20);
