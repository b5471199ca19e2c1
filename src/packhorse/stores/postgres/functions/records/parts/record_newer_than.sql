-- Whether a record is there with a version above the one given.
CREATE FUNCTION {set}record_newer_than(a_kind text, a_key text, a_after bigint, a_now bigint)
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
