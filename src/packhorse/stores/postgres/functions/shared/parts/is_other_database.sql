-- Whether a caller means another database than this one: every database of ours has an identity of its own.
CREATE FUNCTION {set}is_other_database(a_identity text)
RETURNS boolean
LANGUAGE sql STABLE
AS $packhorse$
    SELECT (SELECT id || '/' || tableoid FROM {schema}.identity) IS DISTINCT FROM a_identity
$packhorse$;
