-- Hand freed slots, one an element, to the next in line behind their lanes; the lanes are locked already.
-- Answers the queues in which something became ready.
CREATE FUNCTION {set}hand_on_slots(a_queues text[], a_lanes text[], a_now bigint)
RETURNS text[]
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_ready text[];
BEGIN
    WITH freed AS MATERIALIZED (
        SELECT
            lanes.ctid AS place,
            slots,
            held,
            ARRAY(
                SELECT waiting.ctid
                FROM {schema}.waiting
                WHERE waiting.queue = lanes.queue
                  AND waiting.lane = lanes.lane
                  AND waiting.reason = 'lane'
                ORDER BY waiting.queue, waiting.lane, waiting.seq
                LIMIT slots
            ) AS line
        FROM (
            SELECT queue COLLATE "C" AS queue, lane COLLATE "C" AS lane, count(*) AS slots
            FROM unnest(a_queues, a_lanes) AS freed (queue, lane)
            GROUP BY 1, 2
        ) AS freed
        JOIN {schema}.lanes USING (queue, lane)
    ), handed AS (
        DELETE FROM {schema}.waiting
        WHERE ctid = ANY (ARRAY(SELECT unnest(line) FROM freed))
        RETURNING id, parent, seq, attempt, lost, priority, lane_limit, scope, queue, lane
    ), to_ready AS (
        INSERT INTO {schema}.ready (since, id, parent, attempt, lost, priority, lane_limit, scope, queue, lane)
        SELECT a_now, id, parent, attempt, lost, priority, lane_limit, scope, queue, lane
        FROM handed
        ORDER BY seq
    ), changed AS (  -- a slot that was handed on leaves the lane's row as it is
        UPDATE {schema}.lanes
        SET held = freed.held - slots + cardinality(line)
        FROM freed
        WHERE lanes.ctid = freed.place
          AND cardinality(line) < slots
          AND freed.held - slots + cardinality(line) > 0
    ), emptied AS (
        DELETE FROM {schema}.lanes
        USING freed
        WHERE lanes.ctid = freed.place
          AND freed.held - slots + cardinality(line) <= 0
    ), moved AS MATERIALIZED (
        SELECT queue, count(*) AS jobs
        FROM handed
        GROUP BY queue
    ), counted AS (
        INSERT INTO {schema}.count_deltas (queue, ready, waiting)
        SELECT queue, jobs, -jobs
        FROM moved
    )
    SELECT array_agg(queue)
    INTO v_ready
    FROM moved;
    RETURN v_ready;
END
$packhorse$;
