-- What the server is set to and how it stands, as far as any role may see it.
SELECT
    current_setting('server_version') AS version,
    current_setting('server_version_num')::int AS number,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('synchronous_standby_names') AS standbys,
    current_setting('fsync') AS fsync,
    current_setting('full_page_writes') AS full_page_writes,
    current_setting('default_transaction_isolation') AS isolation,
    current_setting('server_encoding') AS encoding,
    current_setting('autovacuum') AS autovacuum,
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS connections,
    pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all,
    -- What kind a session of another role is, and since when its transaction runs, is hidden from a small role.
    (
        SELECT count(*)::int FROM pg_stat_activity
        WHERE datid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend'
    ) AS connected,
    (
        SELECT coalesce(extract(epoch FROM max(statement_timestamp() - xact_start)), 0)::float8
        FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
    ) AS longest,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
    pg_backend_pid() AS pid,
    pg_is_in_recovery() AS recovering,
    current_user::text AS role,
    has_database_privilege(current_database(), 'CREATE') AS may_create,
    (SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = $1) AS may_use,
    (SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = $1) AS may_change,
    oldest.holder,
    oldest.age
FROM (SELECT 1) AS one
LEFT JOIN LATERAL (
    SELECT holder, age
    FROM (
        SELECT CASE backend_type WHEN 'walsender' THEN 'a replica' ELSE 'session ' || pid END AS holder, age(backend_xmin) AS age
        FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND backend_xmin IS NOT NULL
        UNION ALL
        SELECT 'replication slot ' || slot_name, age(xmin) FROM pg_replication_slots WHERE xmin IS NOT NULL
        UNION ALL
        SELECT 'prepared transaction ' || gid, age(transaction) FROM pg_prepared_xacts
    ) AS held
    ORDER BY age DESC
    LIMIT 1
) AS oldest ON true;
