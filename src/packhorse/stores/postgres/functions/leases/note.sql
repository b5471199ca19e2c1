-- Keep the latest progress of running jobs, and answer the positions of those that were.
CREATE FUNCTION {set}note(a_ids uuid[], a_tokens uuid[], a_notes bytea[])
RETURNS SETOF integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
BEGIN
    RETURN QUERY
    WITH held AS MATERIALIZED (
        SELECT given.n::integer AS n, given.id, given.note
        FROM unnest(a_ids, a_tokens, a_notes) WITH ORDINALITY AS given (id, token, note, n)
        JOIN {schema}.running ON running.id = given.id AND running.token = given.token
        ORDER BY running.id
        FOR SHARE OF running
    ), kept AS (
        INSERT INTO {schema}.progress (id, data)
        SELECT DISTINCT ON (id) id, note
        FROM held
        ORDER BY id, n DESC
        ON CONFLICT (id) DO UPDATE
        SET data = excluded.data
    )
    SELECT n
    FROM held;
END
$packhorse$;
