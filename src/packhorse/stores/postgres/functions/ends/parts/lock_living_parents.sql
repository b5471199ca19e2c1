-- Which of these jobs are there. Their records are locked, so that nothing is left behind for one that is just pruned or
-- dropped.
CREATE FUNCTION {set}lock_living_parents(a_ids uuid[])
RETURNS uuid[]
LANGUAGE plpgsql
AS $packhorse$
BEGIN
    RETURN ARRAY(
        SELECT id
        FROM {schema}.jobs
        WHERE id = ANY (a_ids)
        ORDER BY id
        FOR KEY SHARE
    );
END
$packhorse$;
