-- Make scheduled jobs, and jobs that wait for a person, ready now, and answer which were.
-- Places are locked by id, then lanes; one that is just moved by another call has been there before or will be after.
CREATE FUNCTION {set}promote(a_ids uuid[], a_log boolean, a_now bigint)
RETURNS SETOF uuid
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {set}call_time(a_now);
    v_ids uuid[];
    v_newcomers {set}newcomer[];
BEGIN
    WITH from_scheduled AS (
        DELETE FROM {schema}.scheduled
        WHERE id = ANY (ARRAY(
            SELECT id FROM {schema}.scheduled WHERE id = ANY (a_ids) AND due > v_now ORDER BY id FOR UPDATE
        ))
        RETURNING *
    ), from_waiting AS (
        DELETE FROM {schema}.waiting
        WHERE id = ANY (ARRAY(
            SELECT id FROM {schema}.waiting WHERE id = ANY (a_ids) AND reason = 'intervention' ORDER BY id FOR UPDATE
        ))
        RETURNING *
    ), gone AS MATERIALIZED (
        SELECT id, parent, attempt, lost, priority, lane_limit, slot, scope, queue, lane, 1 AS scheduled FROM from_scheduled
        UNION ALL
        SELECT id, parent, attempt, lost, priority, lane_limit, slot, scope, queue, lane, 0 FROM from_waiting
    ), counted AS (
        INSERT INTO {schema}.count_deltas (queue, scheduled, waiting)
        SELECT queue, -sum(scheduled), -sum(1 - scheduled)
        FROM gone
        GROUP BY queue
    )
    SELECT
        array_agg(id ORDER BY array_position(a_ids, id)),
        array_agg(
            ROW (id, parent, v_now, attempt, lost, priority, lane_limit, slot, scope, queue, lane, NULL)::{set}newcomer
            ORDER BY array_position(a_ids, id)
        )
    INTO v_ids, v_newcomers
    FROM gone;
    IF v_newcomers IS NULL THEN
        RETURN;
    END IF;

    IF {set}make_ready(v_newcomers, v_now) IS NOT NULL THEN
        PERFORM {set}wake_idle_workers(v_now);
    END IF;
    IF a_log THEN
        PERFORM {set}log_changes({set}pack_event('u', v_ids), v_now);
    END IF;
    RETURN QUERY
    SELECT *
    FROM unnest(v_ids);
END
$packhorse$;
