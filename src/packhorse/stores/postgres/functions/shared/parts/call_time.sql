-- The moment of a call: the test's clock if one is given, else the server's (stable within the client's statement).
CREATE FUNCTION {set}call_time(a_now bigint)
RETURNS bigint
LANGUAGE sql STABLE
AS $packhorse$
    SELECT coalesce(a_now, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)
$packhorse$;
