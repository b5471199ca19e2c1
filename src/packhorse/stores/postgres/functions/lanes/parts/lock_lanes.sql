-- Lock lanes in order, making those that are not there. A statement after this one has a snapshot of its own and sees
-- whatever those who held a lane before us left behind it.
CREATE FUNCTION {set}lock_lanes(a_queues text[], a_lanes text[])
RETURNS void
LANGUAGE plpgsql
AS $packhorse$
BEGIN
    INSERT INTO {schema}.lanes (queue, lane, held)
    SELECT DISTINCT queue COLLATE "C", lane COLLATE "C", 0
    FROM unnest(a_queues, a_lanes) AS concerned (queue, lane)
    ORDER BY 1, 2
    ON CONFLICT (queue, lane) DO UPDATE
    SET held = 0
    WHERE false;
END
$packhorse$;
