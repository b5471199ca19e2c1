-- Make jobs ready, or put them behind their lane, and hand freed slots to the next in line.
-- A slot is taken here and nowhere else, so claiming knows nothing of lanes.
-- Answers the queues in which something became ready.
CREATE FUNCTION {schema}.admit_1(
    a_newcomers {schema}.newcomer[],
    a_queues text[],
    a_lanes text[],
    a_now bigint
)
RETURNS text[]
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_ready text[];
BEGIN
    -- Lock the lanes concerned in order, making those that are not there. The statement after this one has a snapshot
    -- of its own and sees whatever those who held a lane before us left behind it.
    INSERT INTO {schema}.lanes (queue, lane, held)
    SELECT queue, lane, 0
    FROM (
        SELECT queue, lane
        FROM unnest(a_newcomers)
        WHERE lane IS NOT NULL
          AND NOT slot
        UNION
        SELECT queue COLLATE "C", lane COLLATE "C"
        FROM unnest(a_queues, a_lanes) AS freed (queue, lane)
    ) AS concerned
    ORDER BY queue, lane
    ON CONFLICT (queue, lane) DO UPDATE
    SET held = 0
    WHERE false;

    -- Freed slots (n is zero) come before those who ask; the first row of a lane looks at the line behind it.
    WITH ranked AS (
        SELECT
            *,
            row_number() OVER (PARTITION BY queue, lane ORDER BY n) AS rank,
            count(*) FILTER (WHERE n = 0) OVER (PARTITION BY queue, lane) AS slots,
            count(*) FILTER (WHERE n > 0) OVER (PARTITION BY queue, lane) AS asks
        FROM (
            SELECT
                0 AS n, NULL::uuid AS id, NULL::uuid AS parent, 0::bigint AS since, 0 AS attempt, 0 AS lost,
                0::smallint AS priority, 0::smallint AS lane_limit, NULL::"char" AS scope,
                queue COLLATE "C" AS queue, lane COLLATE "C" AS lane
            FROM unnest(a_queues, a_lanes) AS freed (queue, lane)
            UNION ALL
            SELECT n, id, parent, since, attempt, lost, priority, lane_limit, scope, queue, lane
            FROM unnest(a_newcomers) WITH ORDINALITY AS job (
                id, parent, since, attempt, lost, priority, lane_limit, slot, scope, queue, lane, n
            )
            WHERE lane IS NOT NULL
              AND NOT slot
        ) AS either
    ), lined AS MATERIALIZED (  -- read one further than the slots to hand on, if somebody asks: is anybody left?
        SELECT
            ranked.*,
            lanes.ctid AS place,
            lanes.held,
            CASE WHEN rank = 1 THEN ARRAY(
                SELECT waits.ctid
                FROM {schema}.waits
                WHERE waits.queue = ranked.queue
                  AND waits.lane = ranked.lane
                  AND waits.reason = 'lane'
                ORDER BY waits.queue, waits.lane, waits.seq
                LIMIT ranked.slots + (ranked.asks > 0)::integer
            ) END AS line
        FROM ranked
        JOIN {schema}.lanes USING (queue, lane)
    ), handed AS (
        DELETE FROM {schema}.waits
        WHERE ctid = ANY (ARRAY(SELECT unnest(line[:slots]) FROM lined WHERE rank = 1))
        RETURNING id, parent, seq, attempt, lost, priority, lane_limit, scope, queue, lane
    ), judged AS MATERIALIZED (  -- who asks gets in, as they came, if nobody is left, until one does not fit
        SELECT
            *,
            waiting <= slots
            AND bool_and(n = 0 OR kept + rank - slots - 1 < lane_limit) OVER (
                PARTITION BY queue, lane
                ORDER BY rank
            ) AS fits
        FROM (
            SELECT *, held - slots + least(slots, waiting) AS kept
            FROM (
                SELECT *, first_value(cardinality(line)) OVER (PARTITION BY queue, lane ORDER BY rank) AS waiting
                FROM lined
            ) AS lined
        ) AS lined
    ), lanes AS MATERIALIZED (
        SELECT place, min(held) AS held, min(kept) + count(*) FILTER (WHERE n > 0 AND fits) AS taken
        FROM judged
        GROUP BY place
    ), let_in AS MATERIALIZED (
        SELECT true AS waited, seq AS n, a_now AS since, id, parent, attempt, lost, priority, lane_limit, scope, queue, lane
        FROM handed
        UNION ALL
        SELECT false, n, since, id, parent, attempt, lost, priority, lane_limit, scope, queue, lane
        FROM unnest(a_newcomers) WITH ORDINALITY AS job (
            id, parent, since, attempt, lost, priority, lane_limit, slot, scope, queue, lane, n
        )
        WHERE lane IS NULL
           OR slot
        UNION ALL
        SELECT false, n, since, id, parent, attempt, lost, priority, lane_limit, scope, queue, lane
        FROM judged
        WHERE n > 0
          AND fits
    ), to_ready AS (
        INSERT INTO {schema}.ready (since, id, parent, attempt, lost, priority, lane_limit, scope, queue, lane)
        SELECT since, id, parent, attempt, lost, priority, lane_limit, scope, queue, lane
        FROM let_in
        ORDER BY waited DESC, n
    ), to_waits AS (
        INSERT INTO {schema}.waits (
            since, id, parent, attempt, lost, priority, lane_limit, slot, scope, reason, queue, lane
        )
        SELECT a_now, id, parent, attempt, lost, priority, lane_limit, false, scope, 'lane', queue, lane
        FROM judged
        WHERE n > 0
          AND NOT fits
        ORDER BY n
    ), changed AS (  -- a slot that was handed on leaves the lane's row as it is
        UPDATE {schema}.lanes AS held
        SET held = lanes.taken
        FROM lanes
        WHERE held.ctid = lanes.place
          AND lanes.taken > 0
          AND lanes.taken <> lanes.held
    ), emptied AS (
        DELETE FROM {schema}.lanes AS held
        USING lanes
        WHERE held.ctid = lanes.place
          AND lanes.taken <= 0
    ), counted AS (
        INSERT INTO {schema}.deltas (queue, ready, waiting)
        SELECT queue, sum(ready), sum(waiting)
        FROM (
            SELECT queue, count(*) AS ready, -count(*) FILTER (WHERE waited) AS waiting
            FROM let_in
            GROUP BY queue
            UNION ALL
            SELECT queue, 0, count(*)
            FROM judged
            WHERE n > 0
              AND NOT fits
            GROUP BY queue
        ) AS moves
        GROUP BY queue
    )
    SELECT array_agg(DISTINCT queue)
    INTO v_ready
    FROM let_in;
    RETURN v_ready;
END
$packhorse$;
