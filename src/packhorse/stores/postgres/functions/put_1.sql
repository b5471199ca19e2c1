-- Write one record by compare-and-set: its new version, zero if it was dropped, null if the expectation failed.
CREATE FUNCTION {schema}.put_1(a_wish {schema}.wish, a_now bigint)
RETURNS bigint
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_version bigint;
BEGIN
    IF a_wish.value IS NULL THEN
        SELECT CASE WHEN expires BETWEEN 1 AND a_now THEN 0 ELSE version END
        INTO v_version
        FROM {schema}.records
        WHERE kind = a_wish.kind
          AND key = a_wish.key
        FOR UPDATE;
        IF a_wish.expect <> coalesce(v_version, 0) THEN
            RETURN NULL;
        END IF;
        DELETE FROM {schema}.records
        WHERE kind = a_wish.kind
          AND key = a_wish.key;
        RETURN 0;
    END IF;
    IF a_wish.expect > 0 THEN
        UPDATE {schema}.records
        SET value = a_wish.value,
            version = greatest(version + 1, a_now),
            due = a_wish.due,
            expires = a_wish.expires
        WHERE kind = a_wish.kind
          AND key = a_wish.key
          AND version = a_wish.expect
          AND NOT expires BETWEEN 1 AND a_now
        RETURNING version INTO v_version;
        RETURN v_version;
    END IF;
    INSERT INTO {schema}.records AS old (kind, key, value, version, due, expires)
    VALUES (a_wish.kind, a_wish.key, a_wish.value, a_now, a_wish.due, a_wish.expires)
    ON CONFLICT (kind, key) DO UPDATE
    SET value = excluded.value,
        version = greatest(old.version + 1, a_now),
        due = excluded.due,
        expires = excluded.expires
    WHERE a_wish.expect IS NULL
       OR old.expires BETWEEN 1 AND a_now
    RETURNING version INTO v_version;
    RETURN v_version;
END
$packhorse$;
