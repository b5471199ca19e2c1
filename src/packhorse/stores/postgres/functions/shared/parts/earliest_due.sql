-- The earliest due moment after another in a queue. Each priority has an order of its own, and so have those that must
-- ask their lane: order and limit pin the index for each.
CREATE FUNCTION {set}earliest_due(a_queue text, a_after bigint)
RETURNS bigint
LANGUAGE plpgsql STABLE
AS $packhorse$
DECLARE
    v_priority smallint := -1;
    v_earliest bigint;
BEGIN
    SELECT due
    INTO v_earliest
    FROM {schema}.scheduled
    WHERE queue = a_queue
      AND lane IS NOT NULL
      AND NOT slot
      AND due > a_after
    ORDER BY queue, due, seq
    LIMIT 1;
    LOOP
        SELECT priority
        INTO v_priority
        FROM {schema}.scheduled
        WHERE queue = a_queue
          AND priority > v_priority
          AND (lane IS NULL OR slot)
        ORDER BY queue, priority
        LIMIT 1;
        EXIT WHEN NOT FOUND;
        v_earliest := least(
            v_earliest,
            (
                SELECT due
                FROM {schema}.scheduled
                WHERE queue = a_queue
                  AND priority = v_priority
                  AND due > a_after
                  AND (lane IS NULL OR slot)
                ORDER BY queue, priority, due, seq
                LIMIT 1
            )
        );
    END LOOP;
    RETURN v_earliest;
END
$packhorse$;
