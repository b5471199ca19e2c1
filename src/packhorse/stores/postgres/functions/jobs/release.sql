-- Make jobs ready that wait for this reason, those that wait longest first.
CREATE FUNCTION {set}release(a_reason text, a_tasks text[], a_limit integer, a_log boolean, a_now bigint)
RETURNS integer
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
    WITH gone AS (
        DELETE FROM {schema}.waiting
        WHERE ctid = ANY (ARRAY(
            SELECT waiting.ctid
            FROM {schema}.waiting
            WHERE reason = a_reason
              AND reason <> 'lane'
              AND (a_tasks IS NULL OR (SELECT task FROM {schema}.jobs WHERE jobs.id = waiting.id) = ANY (a_tasks))
            ORDER BY reason, seq
            LIMIT a_limit
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING *
    ), counted AS (
        INSERT INTO {schema}.count_deltas (queue, waiting)
        SELECT queue, -count(*)
        FROM gone
        GROUP BY queue
    )
    SELECT
        array_agg(id ORDER BY seq),
        array_agg(
            ROW (id, parent, v_now, attempt, lost, priority, lane_limit, slot, scope, queue, lane, NULL)::{set}newcomer
            ORDER BY seq
        )
    INTO v_ids, v_newcomers
    FROM gone;
    IF v_newcomers IS NULL THEN
        RETURN 0;
    END IF;

    IF {set}make_ready(v_newcomers, v_now) IS NOT NULL THEN
        PERFORM {set}wake_idle_workers(v_now);
    END IF;
    IF a_log THEN
        PERFORM {set}log_changes({set}pack_event('r', v_ids), v_now);
    END IF;
    RETURN cardinality(v_ids);
END
$packhorse$;
