-- Keep those who put records and those who begin to wait for them from missing each other.
-- Putters share a latch, a waiter takes it alone; latches are few, so a call holds few, and taken in order.
CREATE FUNCTION {set}lock_record_keys(a_kinds text[], a_keys text[], a_alone boolean[])
RETURNS void
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_latch record;
BEGIN
    FOR v_latch IN
        SELECT hashtext(concat_ws(chr(31), kind, key)) & 255 AS number, bool_or(alone) AS alone
        FROM unnest(a_kinds, a_keys, a_alone) AS put (kind, key, alone)
        GROUP BY 1
        ORDER BY 1
    LOOP
        IF v_latch.alone THEN
            PERFORM pg_advisory_xact_lock(hashtext({channel}), v_latch.number);
        ELSE
            PERFORM pg_advisory_xact_lock_shared(hashtext({channel}), v_latch.number);
        END IF;
    END LOOP;
END
$packhorse$;
