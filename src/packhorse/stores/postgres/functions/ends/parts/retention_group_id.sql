-- The shelf for ended jobs of a queue with this end and this keep; made when first needed. Until the transaction ends
-- nobody removes it (remove_empty_retention_groups): a few latches are shared for that, however many shelves a call needs.
CREATE FUNCTION {set}retention_group_id(a_queue text, a_verdict text, a_count bigint, a_age bigint)
RETURNS integer
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_group integer;
BEGIN
    LOOP
        SELECT id
        INTO v_group
        FROM {schema}.retention_groups
        WHERE queue = a_queue
          AND verdict = a_verdict
          AND keep_count = a_count
          AND keep_age = a_age;
        IF FOUND THEN
            PERFORM pg_advisory_xact_lock_shared(hashtext({channel} || ':retention_groups'), v_group & 63);
            PERFORM 1
            FROM {schema}.retention_groups
            WHERE id = v_group;
            IF FOUND THEN  -- still, now that it cannot be removed any more
                RETURN v_group;
            END IF;
            CONTINUE;
        END IF;
        INSERT INTO {schema}.retention_groups (queue, verdict, keep_count, keep_age)
        VALUES (a_queue, a_verdict, a_count, a_age)
        ON CONFLICT DO NOTHING;
    END LOOP;
END
$packhorse$;
