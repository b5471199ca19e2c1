-- Make jobs ready, or put them behind their lane. A slot is taken here and nowhere else, so claiming knows nothing of
-- lanes. Answers the queues in which something became ready.
CREATE FUNCTION {set}admit_to_lanes(a_newcomers {set}newcomer[], a_now bigint)
RETURNS text[]
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_queues text[];
    v_lanes text[];
    v_ready text[];
BEGIN
    SELECT array_agg(queue), array_agg(lane)
    INTO v_queues, v_lanes
    FROM unnest(a_newcomers)
    WHERE lane IS NOT NULL
      AND NOT slot;
    IF v_lanes IS NOT NULL THEN
        PERFORM {set}lock_lanes(v_queues, v_lanes);
    END IF;

    WITH newcomers AS MATERIALIZED (
        SELECT *, lane IS NOT NULL AND NOT slot AS asks
        FROM unnest(a_newcomers) WITH ORDINALITY AS job (
            id, parent, since, attempt, lost, priority, lane_limit, slot, scope, queue, lane, seq, n
        )
    ), asking AS MATERIALIZED (  -- the first to ask looks whether somebody stands behind the lane already
        SELECT
            job.*,
            lanes.ctid AS place,
            lanes.held,
            CASE WHEN turn = 1 THEN (
                SELECT 1
                FROM {schema}.waiting
                WHERE waiting.queue = job.queue
                  AND waiting.lane = job.lane
                  AND waiting.reason = 'lane'
                ORDER BY waiting.queue, waiting.lane, waiting.seq
                LIMIT 1
            ) END AS crowd
        FROM (
            SELECT *, row_number() OVER (PARTITION BY queue, lane ORDER BY n) AS turn
            FROM newcomers
            WHERE asks
        ) AS job
        JOIN {schema}.lanes USING (queue, lane)
    ), judged AS MATERIALIZED (  -- they get in as they came, if nobody waits, until one does not fit
        SELECT
            *,
            first_value(crowd) OVER (PARTITION BY place ORDER BY turn) IS NULL
            AND bool_and(held + turn - 1 < lane_limit) OVER (PARTITION BY place ORDER BY turn) AS fits
        FROM asking
    ), let_in AS MATERIALIZED (
        SELECT n, seq, since, id, parent, attempt, lost, priority, lane_limit, scope, queue, lane
        FROM newcomers
        WHERE NOT asks
        UNION ALL
        SELECT n, seq, since, id, parent, attempt, lost, priority, lane_limit, scope, queue, lane
        FROM judged
        WHERE fits
    ), to_ready AS (
        INSERT INTO {schema}.ready (seq, since, id, parent, attempt, lost, priority, lane_limit, scope, queue, lane)
        SELECT
            coalesce(seq, nextval({arrival})), since, id, parent, attempt, lost, priority, lane_limit, scope, queue, lane
        FROM (
            SELECT *
            FROM let_in
            ORDER BY n
        ) AS in_order
    ), to_waiting AS (
        INSERT INTO {schema}.waiting (
            since, id, parent, attempt, lost, priority, lane_limit, slot, scope, reason, queue, lane
        )
        SELECT a_now, id, parent, attempt, lost, priority, lane_limit, false, scope, 'lane', queue, lane
        FROM judged
        WHERE NOT fits
        ORDER BY n
    ), changed AS (
        UPDATE {schema}.lanes
        SET held = lanes.held + granted.slots
        FROM (
            SELECT place, count(*) AS slots
            FROM judged
            WHERE fits
            GROUP BY place
        ) AS granted
        WHERE lanes.ctid = granted.place
    ), moved AS MATERIALIZED (
        SELECT queue, sum(ready) AS ready, sum(waiting) AS waiting
        FROM (
            SELECT queue, count(*) AS ready, 0 AS waiting
            FROM let_in
            GROUP BY queue
            UNION ALL
            SELECT queue, 0, count(*)
            FROM judged
            WHERE NOT fits
            GROUP BY queue
        ) AS moves
        GROUP BY queue
    ), counted AS (
        INSERT INTO {schema}.count_deltas (queue, ready, waiting)
        SELECT queue, ready, waiting
        FROM moved
    )
    SELECT array_agg(queue) FILTER (WHERE ready > 0)
    INTO v_ready
    FROM moved;
    RETURN v_ready;
END
$packhorse$;
