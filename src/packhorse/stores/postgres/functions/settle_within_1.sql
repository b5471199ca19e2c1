-- Write outcomes with their effects as the last statement of a transaction of the caller's own.
-- All is given as one text of JSON and answered as one: positions that were not written, with the words why.
-- Answers null if the caller means another database, and the isolation level as a string if it is not READ COMMITTED: under
-- an older snapshot a settlement does not see who has come to wait behind a lane or for children, and would strand them.
-- Nothing is raised then that would spoil the transaction.
CREATE FUNCTION {schema}.settle_within_1(a_given text)
RETURNS text
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_given json := a_given::json;
BEGIN
    IF {schema}.elsewhere_1(v_given ->> 'identity') THEN
        RETURN NULL;
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN to_json(current_setting('transaction_isolation'))::text;
    END IF;
    FOR v_try IN 1..8 LOOP  -- in a subtransaction: locks of ours that met those of another call are let go, the caller's writes stay
        BEGIN
            RETURN (
                SELECT coalesce(json_agg(json_build_array(o_n, o_word)) FILTER (WHERE o_n IS NOT NULL), '[]')::text
                FROM {schema}.exchange_1(
                    a_ids => ARRAY(SELECT value::uuid FROM json_array_elements_text(v_given -> 'ids')),
                    a_tokens => ARRAY(SELECT value::uuid FROM json_array_elements_text(v_given -> 'tokens')),
                    a_results => ARRAY(SELECT convert_to(value, 'UTF8') FROM json_array_elements_text(v_given -> 'results')),
                    a_unusual => (v_given ->> 'unusual')::json,
                    a_worker => NULL, a_token => NULL, a_lease => NULL, a_number => NULL, a_again => NULL,
                    a_queues => NULL, a_counts => NULL, a_mosts => NULL, a_bytes => NULL, a_hints => NULL,
                    a_keep_count => (v_given ->> 'keep_count')::bigint,
                    a_keep_age => (v_given ->> 'keep_age')::bigint,
                    a_failures => (v_given ->> 'failures')::integer,
                    a_log => (v_given ->> 'log')::boolean,
                    a_now => (v_given ->> 'now')::bigint
                )
            );
        EXCEPTION
            WHEN deadlock_detected OR serialization_failure THEN
                IF v_try = 8 THEN
                    RAISE;
                END IF;
        END;
    END LOOP;
END
$packhorse$;
