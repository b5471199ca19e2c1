-- Remove what is over: tombstones, records, unique windows, watches, workers, traces of asks, old lifecycle events.
-- Answers how many, but for the events, and whether there may be more.
CREATE FUNCTION {schema}.sweep_1(
    a_limit integer,
    a_events bigint,
    a_now bigint,
    OUT o_swept integer,
    OUT o_more boolean
)
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_number integer;
    v_numbers integer[];
BEGIN
    DELETE FROM {schema}.tombs
    WHERE ctid = ANY (ARRAY(
        SELECT ctid
        FROM {schema}.tombs
        WHERE forget <= a_now
        ORDER BY forget
        LIMIT a_limit
        FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS v_number = ROW_COUNT;
    v_numbers := v_numbers || v_number;
    DELETE FROM {schema}.records
    WHERE ctid = ANY (ARRAY(
        SELECT ctid
        FROM {schema}.records
        WHERE expires > 0
          AND expires <= a_now
        ORDER BY expires
        LIMIT a_limit
        FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS v_number = ROW_COUNT;
    v_numbers := v_numbers || v_number;
    DELETE FROM {schema}.uniques
    WHERE ctid = ANY (ARRAY(
        SELECT ctid
        FROM {schema}.uniques
        WHERE scope = 'w'
          AND until <= a_now
        ORDER BY until
        LIMIT a_limit
        FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS v_number = ROW_COUNT;
    v_numbers := v_numbers || v_number;
    DELETE FROM {schema}.watched
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM {schema}.watched WHERE until <= a_now LIMIT a_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_number = ROW_COUNT;
    v_numbers := v_numbers || v_number;
    DELETE FROM {schema}.workers
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM {schema}.workers WHERE until <= a_now LIMIT a_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_number = ROW_COUNT;
    v_numbers := v_numbers || v_number;
    DELETE FROM {schema}.sleepers
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM {schema}.sleepers WHERE until <= a_now LIMIT a_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_number = ROW_COUNT;
    v_numbers := v_numbers || v_number;
    DELETE FROM {schema}.asks  -- a day later nobody repeats an ask
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}.asks WHERE at <= a_now - 86400000000 LIMIT a_limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS v_number = ROW_COUNT;
    v_numbers := v_numbers || v_number;
    PERFORM {schema}.number_1(2000);
    DELETE FROM {schema}.lifecycle
    WHERE ctid = ANY (ARRAY(
        SELECT ctid
        FROM {schema}.lifecycle
        WHERE "offset" <= (SELECT last FROM {schema}.heads WHERE stream = 'packhorse.jobs') - a_events
        ORDER BY "offset"
        LIMIT 5000
        FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS v_number = ROW_COUNT;
    SELECT sum(number), bool_or(number = a_limit) OR v_number = 5000
    INTO o_swept, o_more
    FROM unnest(v_numbers) AS swept (number);
END
$packhorse$;
