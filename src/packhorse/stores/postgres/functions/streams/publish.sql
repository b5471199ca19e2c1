-- Append events to their streams, all or none, and answer their offsets in order.
CREATE FUNCTION {set}publish(a_events json, a_now bigint)
RETURNS SETOF bigint
LANGUAGE plpgsql
AS $packhorse$
BEGIN
    RETURN QUERY
    SELECT *
    FROM {set}append_events(a_events, NULL, {set}call_time(a_now));
END
$packhorse$;
