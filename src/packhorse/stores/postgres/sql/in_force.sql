-- What the server is set to and how it stands, as far as any role may see it.
SELECT
    current_setting('server_version') AS version,
    current_setting('server_version_num')::int AS number,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('synchronous_standby_names') AS standbys,
    current_setting('fsync') AS fsync,
    current_setting('full_page_writes') AS full_page_writes,
    current_setting('default_transaction_isolation') AS isolation,
    current_setting('autovacuum') AS autovacuum,
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS connections,
    (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend') AS connected,
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
    (SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = $1) AS may_change;
