-- Remove what is over: tombstones, records, unique windows, watches, workers, traces of asks, old lifecycle events.
-- Answers how many, but for the events, and whether there may be more.
CREATE FUNCTION {set}sweep_expired(
    a_limit integer,
    a_events bigint,
    a_bytes bigint,
    a_now bigint,
    OUT o_swept integer,
    OUT o_more boolean
)
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_number integer;
    v_numbers integer[];
    v_last bigint;
    v_beyond bigint;
BEGIN
    DELETE FROM {schema}.tombstones
    WHERE ctid = ANY (ARRAY(
        SELECT ctid
        FROM {schema}.tombstones
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
    DELETE FROM {schema}.unique_keys
    WHERE ctid = ANY (ARRAY(
        SELECT ctid
        FROM {schema}.unique_keys
        WHERE scope = 'w'
          AND until <= a_now
        ORDER BY until
        LIMIT a_limit
        FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS v_number = ROW_COUNT;
    v_numbers := v_numbers || v_number;
    DELETE FROM {schema}.watched_jobs
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM {schema}.watched_jobs WHERE until <= a_now LIMIT a_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_number = ROW_COUNT;
    v_numbers := v_numbers || v_number;
    DELETE FROM {schema}.workers
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM {schema}.workers WHERE until <= a_now LIMIT a_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_number = ROW_COUNT;
    v_numbers := v_numbers || v_number;
    DELETE FROM {schema}.idle_workers
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM {schema}.idle_workers WHERE until <= a_now LIMIT a_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_number = ROW_COUNT;
    v_numbers := v_numbers || v_number;
    DELETE FROM {schema}.claim_requests  -- a day later nobody repeats an ask
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}.claim_requests WHERE at <= a_now - 86400000000 LIMIT a_limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS v_number = ROW_COUNT;
    v_numbers := v_numbers || v_number;
    PERFORM {set}number_events(2000);
    SELECT last
    INTO v_last
    FROM {schema}.stream_heads
    WHERE stream = 'packhorse.jobs';
    -- A small table holds no more bytes than it has. The length of an event that is stored aside is in its row.
    IF pg_table_size((SELECT tableoid FROM {schema}.lifecycle LIMIT 1)) > a_bytes THEN
        SELECT max("offset")
        INTO v_beyond
        FROM (
            SELECT "offset", sum(octet_length(data)) OVER (ORDER BY "offset" DESC) AS bytes
            FROM {schema}.lifecycle
            WHERE "offset" > v_last - a_events
        ) AS kept
        WHERE bytes > a_bytes;
    END IF;
    DELETE FROM {schema}.lifecycle
    WHERE ctid = ANY (ARRAY(
        SELECT ctid
        FROM {schema}.lifecycle
        WHERE "offset" <= greatest(v_last - a_events, v_beyond)
          AND "offset" < v_last
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
