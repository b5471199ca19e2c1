-- name: reset_settings
-- Who the session is and how it is set, as when it began. Within a transaction this is part of it.
RESET SESSION AUTHORIZATION;
RESET ROLE;
RESET ALL;

-- name: reset_session
-- What else a handler can leave in a session by statements; DISCARD ALL would forget the plans of our functions too. A session
-- with TEMP objects or prepared statements fails here: plans that the driver keeps may depend on them.
CLOSE ALL;
UNLISTEN *;
DISCARD SEQUENCES;
SELECT pg_catalog.pg_advisory_unlock_all();
DO $packhorse$
BEGIN
    IF pg_catalog.pg_my_temp_schema() <> 0 OR EXISTS (SELECT FROM pg_catalog.pg_prepared_statements WHERE from_sql) THEN
        RAISE 'the session is to be closed';
    END IF;
END
$packhorse$;

-- name: roll_back
ROLLBACK;

-- name: reset_pooled
-- The same for a session of a pooler, which cannot be closed: in its transaction, or in one message with what rolls that back.
-- Prepared statements of the pooler's own stay.
CLOSE ALL;
UNLISTEN *;
DISCARD SEQUENCES;
DISCARD TEMP;
SELECT pg_catalog.pg_advisory_unlock_all();
DO $packhorse$
DECLARE
    v_name text;
BEGIN
    FOR v_name IN SELECT name FROM pg_catalog.pg_prepared_statements WHERE from_sql LOOP
        EXECUTE pg_catalog.format('DEALLOCATE %I', v_name);
    END LOOP;
END
$packhorse$;
