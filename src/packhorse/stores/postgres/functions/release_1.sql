-- Make jobs ready that wait for this reason, those that wait longest first.
CREATE FUNCTION {schema}.release_1(a_reason text, a_tasks text[], a_limit integer, a_log boolean, a_now bigint)
RETURNS integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {schema}.moment_1(a_now);
    v_ids uuid[];
    v_newcomers {schema}.newcomer[];
BEGIN
    WITH gone AS (
        DELETE FROM {schema}.waits
        WHERE ctid = ANY (ARRAY(
            SELECT waits.ctid
            FROM {schema}.waits
            WHERE reason = a_reason
              AND reason <> 'lane'
              AND (a_tasks IS NULL OR (SELECT task FROM {schema}.jobs WHERE jobs.id = waits.id) = ANY (a_tasks))
            ORDER BY reason, seq
            LIMIT a_limit
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING *
    ), counted AS (
        INSERT INTO {schema}.deltas (queue, waiting)
        SELECT queue, -count(*)
        FROM gone
        GROUP BY queue
    )
    SELECT
        array_agg(id ORDER BY seq),
        array_agg(
            ROW (id, parent, v_now, attempt, lost, priority, lane_limit, slot, scope, queue, lane, NULL)::{schema}.newcomer
            ORDER BY seq
        )
    INTO v_ids, v_newcomers
    FROM gone;
    IF v_newcomers IS NULL THEN
        RETURN 0;
    END IF;

    IF {schema}.ask_1(v_newcomers, v_now) IS NOT NULL THEN
        PERFORM {schema}.wake_1(v_now);
    END IF;
    IF a_log THEN
        PERFORM {schema}.log_1({schema}.packed_1('r', v_ids), v_now);
    END IF;
    RETURN cardinality(v_ids);
END
$packhorse$;
