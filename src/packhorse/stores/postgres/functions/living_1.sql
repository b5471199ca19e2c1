-- Which of these jobs are there and have not ended. Their records are locked, so that nothing is left behind for one
-- that is just pruned or dropped.
CREATE FUNCTION {schema}.living_1(a_ids uuid[])
RETURNS uuid[]
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_there uuid[] := ARRAY(
        SELECT id
        FROM {schema}.jobs
        WHERE id = ANY (a_ids)
        ORDER BY id
        FOR KEY SHARE
    );
BEGIN
    RETURN ARRAY(
        SELECT id
        FROM unnest(v_there) AS job (id)
        WHERE (SELECT 1 FROM {schema}.ends WHERE ends.id = job.id) IS NULL
    );
END
$packhorse$;
