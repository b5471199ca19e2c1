-- Since when the oldest ready job of a queue is ready: the first of each priority, and of those the oldest.
CREATE FUNCTION {set}oldest_ready(a_queue text)
RETURNS bigint
LANGUAGE plpgsql STABLE
AS $packhorse$
DECLARE
    v_priority smallint := -1;
    v_since bigint;
    v_oldest bigint;
BEGIN
    LOOP
        SELECT priority, since
        INTO v_priority, v_since
        FROM {schema}.ready
        WHERE queue = a_queue
          AND priority > v_priority
        ORDER BY queue, priority, since, seq
        LIMIT 1;
        EXIT WHEN NOT FOUND;
        v_oldest := least(v_oldest, v_since);
    END LOOP;
    RETURN v_oldest;
END
$packhorse$;
