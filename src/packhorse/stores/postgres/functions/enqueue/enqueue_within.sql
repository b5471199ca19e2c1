-- Store jobs within a transaction of the caller's own, which may stay open for long: no row is locked that others need.
-- All is given as one text of JSON and answered as one, so that any driver can call it with whatever codecs it has.
-- Answers null if the caller means another database; nothing is raised then that would spoil the transaction.
CREATE FUNCTION {set}enqueue_within(a_given text)
RETURNS text
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_given json := a_given::json;
BEGIN
    IF {set}is_other_database(v_given ->> 'identity') THEN
        RETURN NULL;
    END IF;
    IF (v_given ->> 'careful')::boolean THEN
        RETURN (
            SELECT coalesce(json_agg(json_build_array(o_n, o_holder)), '[]')::text
            FROM {set}enqueue_with_retry(
                ARRAY(SELECT value FROM json_array_elements(v_given -> 'runs')),
                (v_given ->> 'keyed')::boolean,
                (v_given ->> 'log')::boolean,
                (v_given ->> 'now')::bigint
            )
        );
    END IF;
    RETURN (
        SELECT coalesce(json_agg(json_build_array(o_n, o_holder)), '[]')::text
        FROM {set}enqueue(
            ARRAY(SELECT value FROM json_array_elements(v_given -> 'runs')),
            (v_given ->> 'keyed')::boolean,
            NULL,
            (v_given ->> 'log')::boolean,
            (v_given ->> 'now')::bigint
        )
    );
END
$packhorse$;
