-- Lock, in order, the rows under which deliveries to these jobs are counted.
CREATE FUNCTION {set}lock_families(a_ids uuid[])
RETURNS void
LANGUAGE plpgsql
AS $packhorse$
BEGIN
    INSERT INTO {schema}.families (id, delivered)
    SELECT DISTINCT id, 0
    FROM unnest(a_ids) AS job (id)
    ORDER BY id
    ON CONFLICT (id) DO UPDATE
    SET delivered = 0
    WHERE false;
END
$packhorse$;
