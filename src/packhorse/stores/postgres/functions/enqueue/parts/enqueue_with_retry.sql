-- Store jobs with unique keys or chosen ids within a transaction of the caller's own. If an id is taken or pruned meanwhile,
-- the call is repeated in a subtransaction, which sees that, instead of failing the caller's transaction.
-- Other jobs never meet this and need no subtransaction: many of them in one transaction slow down everybody.
CREATE FUNCTION {set}enqueue_with_retry(a_runs json[], a_keyed boolean, a_log boolean, a_now bigint)
RETURNS TABLE (o_n integer, o_holder uuid)
LANGUAGE plpgsql
AS $packhorse$
BEGIN
    FOR v_try IN 1..8 LOOP
        BEGIN
            RETURN QUERY
            SELECT taken.o_n, taken.o_holder
            FROM {set}enqueue(a_runs, a_keyed, NULL, a_log, a_now) AS taken;
            RETURN;
        EXCEPTION
            WHEN serialization_failure THEN
                IF v_try = 8 THEN
                    RAISE;
                END IF;
        END;
    END LOOP;
END
$packhorse$;
