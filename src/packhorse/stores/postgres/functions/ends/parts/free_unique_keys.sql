-- Free the unique keys these jobs hold until their start or end.
CREATE FUNCTION {set}free_unique_keys(a_ids uuid[])
RETURNS void
LANGUAGE plpgsql
AS $packhorse$
BEGIN
    DELETE FROM {schema}.unique_keys
    WHERE key = ANY (ARRAY(
        SELECT held.key
        FROM {schema}.jobs
        JOIN {schema}.unique_keys AS held ON held.key = jobs.unique_key
        WHERE jobs.id = ANY (a_ids)
          AND held.id = jobs.id
          AND held.scope <> 'w'
        ORDER BY held.key
        FOR UPDATE OF held
    ));
END
$packhorse$;
