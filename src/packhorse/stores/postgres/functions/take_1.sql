-- Take jobs that are not running and have not ended out of their places, with the locks that follow from their end:
-- parents first, then places by id (of the ready ones first the fresh), then lanes. The line behind a lane is touched
-- only under the lane's lock.
CREATE FUNCTION {schema}.take_1(a_ids uuid[])
RETURNS {schema}.ended[]
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_taken {schema}.ended[];
    v_parents uuid[];
    v_queues text[];
    v_lanes text[];
    v_lined {schema}.ended[];
BEGIN
    v_parents := {schema}.parents_1(ARRAY(
        SELECT parent
        FROM {schema}.jobs
        WHERE id = ANY (a_ids)
          AND parent IS NOT NULL
    ));
    PERFORM {schema}.family_1(v_parents);
    WITH from_ready AS (
        DELETE FROM {schema}.ready
        WHERE ctid = ANY (
            ARRAY(
                SELECT ready.ctid
                FROM {schema}.jobs
                JOIN {schema}.ready
                    ON ready.queue = jobs.queue
                    AND ready.priority = jobs.priority
                    AND ready.since = jobs.born
                    AND ready.seq = jobs.seq
                WHERE jobs.id = ANY (a_ids)
                ORDER BY jobs.id
                FOR UPDATE OF ready
            )
            || ARRAY(SELECT ctid FROM {schema}.ready WHERE id = ANY (a_ids) AND NOT fresh ORDER BY id FOR UPDATE)
        )
        RETURNING *
    ), from_due AS (
        DELETE FROM {schema}.due
        WHERE id = ANY (ARRAY(SELECT id FROM {schema}.due WHERE id = ANY (a_ids) ORDER BY id FOR UPDATE))
        RETURNING *
    ), from_waits AS (
        DELETE FROM {schema}.waits
        WHERE id = ANY (ARRAY(
            SELECT id FROM {schema}.waits WHERE id = ANY (a_ids) AND reason <> 'lane' ORDER BY id FOR UPDATE
        ))
        RETURNING *
    )
    SELECT array_agg(taken::{schema}.ended)
    INTO v_taken
    FROM (
        SELECT id, parent, attempt, lost, lane IS NOT NULL, scope, queue, lane, 'ready', NULL, NULL::bytea FROM from_ready
        UNION ALL
        SELECT id, parent, attempt, lost, slot, scope, queue, lane, 'scheduled', NULL, NULL FROM from_due
        UNION ALL
        SELECT id, parent, attempt, lost, slot, scope, queue, lane, 'waiting', NULL, NULL FROM from_waits
    ) AS taken;

    WITH locked AS MATERIALIZED (
        SELECT lanes.queue, lanes.lane
        FROM (
            SELECT DISTINCT queue, lane
            FROM {schema}.jobs
            WHERE id = ANY (a_ids || v_parents)
              AND lane IS NOT NULL
        ) AS concerned
        JOIN {schema}.lanes USING (queue, lane)
        ORDER BY lanes.queue, lanes.lane
        FOR UPDATE OF lanes
    )
    SELECT array_agg(queue), array_agg(lane)
    INTO v_queues, v_lanes
    FROM locked;
    IF v_lanes IS NOT NULL THEN
        WITH from_line AS (
            DELETE FROM {schema}.waits
            USING unnest(v_queues, v_lanes) AS locked (queue, lane)
            WHERE waits.id = ANY (a_ids)
              AND waits.reason = 'lane'
              AND waits.queue = locked.queue
              AND waits.lane = locked.lane
            RETURNING waits.*
        )
        SELECT array_agg(
            ROW (id, parent, attempt, lost, false, scope, queue, lane, 'waiting', NULL, NULL)::{schema}.ended
        )
        INTO v_lined
        FROM from_line;
    END IF;
    RETURN v_taken || v_lined;
END
$packhorse$;
