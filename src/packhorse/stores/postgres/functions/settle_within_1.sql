-- Write outcomes with their effects as the last statement of a transaction of the caller's own.
-- All is given as one text of JSON and answered as one: positions that were not written, with the words why.
-- Answers null if the caller means another database; nothing is raised then that would spoil the transaction.
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
    RETURN (
        SELECT coalesce(json_agg(json_build_array(o_n, o_word)) FILTER (WHERE o_n IS NOT NULL), '[]')::text
        FROM {schema}.exchange_1(
            ARRAY(SELECT value::uuid FROM json_array_elements_text(v_given -> 'ids')),
            ARRAY(SELECT value::uuid FROM json_array_elements_text(v_given -> 'tokens')),
            ARRAY(SELECT convert_to(value, 'UTF8') FROM json_array_elements_text(v_given -> 'results')),
            (v_given ->> 'unusual')::json,
            NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            (v_given ->> 'keep_count')::bigint,
            (v_given ->> 'keep_age')::bigint,
            (v_given ->> 'failures')::integer,
            (v_given ->> 'log')::boolean,
            (v_given ->> 'now')::bigint
        )
    );
END
$packhorse$;
