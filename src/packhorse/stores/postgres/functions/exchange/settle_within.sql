-- Write outcomes with their effects as the last statement of a transaction of the caller's own.
-- All is given as one text of JSON and answered as one: positions that were not written, with the words why.
-- Answers null if the caller means another database, and the isolation level as a string if it is not READ COMMITTED: under
-- an older snapshot a settlement does not see who has come to wait behind a lane or for children, and would strand them.
-- Nothing is raised then that would spoil the transaction.
CREATE FUNCTION {set}settle_within(a_given text)
RETURNS text
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_given json := a_given::json;
    v_refused json;
BEGIN
    IF {set}is_other_database(v_given ->> 'identity') THEN
        RETURN NULL;
    END IF;
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RETURN to_json(current_setting('transaction_isolation'))::text;
    END IF;
    FOR v_try IN 1..8 LOOP  -- in a subtransaction: locks of ours that met those of another call are let go, the caller's writes stay
        BEGIN
            SELECT coalesce(json_agg(json_build_array(n, word)) FILTER (WHERE word <> 'written'), '[]')
            INTO v_refused
            FROM {set}exchange(
                a_ids => ARRAY(SELECT value::uuid FROM json_array_elements_text(v_given -> 'ids')),
                a_tokens => ARRAY(SELECT value::uuid FROM json_array_elements_text(v_given -> 'tokens')),
                a_results => ARRAY(SELECT convert_to(value, 'UTF8') FROM json_array_elements_text(v_given -> 'results')),
                a_unusual => (v_given ->> 'unusual')::json,
                a_worker => NULL, a_token => NULL, a_lease => NULL, a_number => NULL, a_again => NULL,
                a_queues => NULL, a_counts => NULL, a_mosts => NULL, a_bytes => NULL, a_bookmarks => NULL,
                a_keep_count => (v_given ->> 'keep_count')::bigint,
                a_keep_age => (v_given ->> 'keep_age')::bigint,
                a_failures => (v_given ->> 'failures')::integer,
                a_log => (v_given ->> 'log')::boolean,
                a_now => (v_given ->> 'now')::bigint
            ) AS answer
            LEFT JOIN LATERAL unnest(answer.verdicts) WITH ORDINALITY AS verdict (word, n) ON true;
            -- Last: note() locks the lease before the progress, and would meet this call crosswise.
            INSERT INTO {schema}.progress (id, data)
            SELECT (v_given -> 'ids' ->> (n - 1)::integer)::uuid, convert_to(note, 'UTF8')
            FROM json_array_elements_text(v_given -> 'notes') WITH ORDINALITY AS given (note, n)
            WHERE note IS NOT NULL AND n NOT IN (SELECT (value ->> 0)::bigint FROM json_array_elements(v_refused))
            ON CONFLICT (id) DO UPDATE
            SET data = excluded.data;
            RETURN v_refused::text;
        EXCEPTION
            WHEN deadlock_detected OR serialization_failure THEN
                IF v_try = 8 THEN
                    RAISE;
                END IF;
        END;
    END LOOP;
END
$packhorse$;
