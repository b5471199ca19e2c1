-- The shelf for ended jobs of a queue with this end and this keep; made when first needed.
CREATE FUNCTION {schema}.shelf_1(a_queue text, a_verdict text, a_count bigint, a_age bigint)
RETURNS integer
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_shelf integer;
BEGIN
    LOOP
        SELECT id
        INTO v_shelf
        FROM {schema}.shelves
        WHERE queue = a_queue
          AND verdict = a_verdict
          AND keep_count = a_count
          AND keep_age = a_age;
        IF FOUND THEN
            RETURN v_shelf;
        END IF;
        INSERT INTO {schema}.shelves (queue, verdict, keep_count, keep_age)
        VALUES (a_queue, a_verdict, a_count, a_age)
        ON CONFLICT DO NOTHING;
    END LOOP;
END
$packhorse$;
