-- Write one record by compare-and-set: its new version, zero if it was dropped, null if the expectation failed.
CREATE FUNCTION {set}put_record(a_put {set}record_put, a_now bigint)
RETURNS bigint
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_version bigint;
BEGIN
    IF a_put.value IS NULL THEN
        SELECT CASE WHEN expires BETWEEN 1 AND a_now THEN 0 ELSE version END
        INTO v_version
        FROM {schema}.records
        WHERE kind = a_put.kind
          AND key = a_put.key
        FOR UPDATE;
        IF a_put.expect <> coalesce(v_version, 0) THEN
            RETURN NULL;
        END IF;
        DELETE FROM {schema}.records
        WHERE kind = a_put.kind
          AND key = a_put.key;
        RETURN 0;
    END IF;
    IF a_put.expect > 0 THEN
        UPDATE {schema}.records
        SET value = a_put.value,
            version = greatest(version + 1, a_now),
            due = a_put.due,
            expires = a_put.expires
        WHERE kind = a_put.kind
          AND key = a_put.key
          AND version = a_put.expect
          AND NOT expires BETWEEN 1 AND a_now
        RETURNING version INTO v_version;
        RETURN v_version;
    END IF;
    INSERT INTO {schema}.records AS old (kind, key, value, version, due, expires)
    VALUES (a_put.kind, a_put.key, a_put.value, a_now, a_put.due, a_put.expires)
    ON CONFLICT (kind, key) DO UPDATE
    SET value = excluded.value,
        version = greatest(old.version + 1, a_now),
        due = excluded.due,
        expires = excluded.expires
    WHERE a_put.expect IS NULL
       OR old.expires BETWEEN 1 AND a_now
    RETURNING version INTO v_version;
    RETURN v_version;
END
$packhorse$;
