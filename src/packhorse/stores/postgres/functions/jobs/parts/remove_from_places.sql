-- Take jobs that are not running and have not ended out of their places, with the locks that follow from their end:
-- parents first, then places by id (of the ready ones first the fresh), then lanes. The line behind a lane is touched
-- only under the lane's lock.
CREATE FUNCTION {set}remove_from_places(a_ids uuid[])
RETURNS {set}ended_job[]
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_taken {set}ended_job[];
    v_parents uuid[];
    v_queues text[];
    v_lanes text[];
    v_lined {set}ended_job[];
BEGIN
    v_parents := {set}lock_living_parents(ARRAY(
        SELECT parent
        FROM {schema}.jobs
        WHERE id = ANY (a_ids)
          AND parent IS NOT NULL
    ));
    PERFORM {set}lock_families(v_parents);
    WITH from_ready AS (
        DELETE FROM {schema}.ready
        WHERE ctid = ANY (
            ARRAY(
                SELECT ready.ctid
                FROM {schema}.jobs
                JOIN {schema}.ready
                    ON ready.queue = jobs.queue
                    AND ready.priority = jobs.priority
                    AND ready.since = jobs.enqueued_at
                    AND ready.seq = jobs.seq
                WHERE jobs.id = ANY (a_ids)
                ORDER BY jobs.id
                FOR UPDATE OF ready
            )
            || ARRAY(SELECT ctid FROM {schema}.ready WHERE id = ANY (a_ids) AND NOT fresh ORDER BY id FOR UPDATE)
        )
        RETURNING *
    ), from_scheduled AS (
        DELETE FROM {schema}.scheduled
        WHERE id = ANY (ARRAY(SELECT id FROM {schema}.scheduled WHERE id = ANY (a_ids) ORDER BY id FOR UPDATE))
        RETURNING *
    ), from_waiting AS (
        DELETE FROM {schema}.waiting
        WHERE id = ANY (ARRAY(
            SELECT id FROM {schema}.waiting WHERE id = ANY (a_ids) AND reason <> 'lane' ORDER BY id FOR UPDATE
        ))
        RETURNING *
    )
    SELECT array_agg(taken::{set}ended_job)
    INTO v_taken
    FROM (
        SELECT id, parent, attempt, lost, lane IS NOT NULL, scope, queue, lane, 'ready', NULL, NULL::bytea FROM from_ready
        UNION ALL
        SELECT id, parent, attempt, lost, slot, scope, queue, lane, 'scheduled', NULL, NULL FROM from_scheduled
        UNION ALL
        SELECT id, parent, attempt, lost, slot, scope, queue, lane, 'waiting', NULL, NULL FROM from_waiting
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
            DELETE FROM {schema}.waiting
            USING unnest(v_queues, v_lanes) AS locked (queue, lane)
            WHERE waiting.id = ANY (a_ids)
              AND waiting.reason = 'lane'
              AND waiting.queue = locked.queue
              AND waiting.lane = locked.lane
            RETURNING waiting.*
        )
        SELECT array_agg(
            ROW (id, parent, attempt, lost, false, scope, queue, lane, 'waiting', NULL, NULL)::{set}ended_job
        )
        INTO v_lined
        FROM from_line;
    END IF;
    RETURN v_taken || v_lined;
END
$packhorse$;
