-- Whether a record is there with a version above the one given.
CREATE FUNCTION {schema}.there_1(a_kind text, a_key text, a_after bigint, a_now bigint)
RETURNS boolean
LANGUAGE plpgsql
AS $packhorse$
BEGIN
    RETURN (
        SELECT count(*) > 0
        FROM {schema}.records
        WHERE kind = a_kind
          AND key = a_key
          AND version > a_after
          AND NOT expires BETWEEN 1 AND a_now
    );
END
$packhorse$;
