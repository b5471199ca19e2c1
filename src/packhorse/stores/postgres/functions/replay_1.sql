-- Make dead or cancelled jobs ready again as if they were new, and answer which were.
CREATE FUNCTION {schema}.replay_1(a_ids uuid[], a_log boolean, a_now bigint)
RETURNS SETOF uuid
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {schema}.moment_1(a_now);
    v_ids uuid[];
    v_keyed uuid[];
    v_newcomers {schema}.newcomer[];
BEGIN
    v_ids := ARRAY(
        SELECT ends.id
        FROM {schema}.ends
        JOIN {schema}.shelves ON shelves.id = ends.shelf
        WHERE ends.id = ANY (a_ids)
          AND shelves.verdict IN ('dead', 'cancelled')
        ORDER BY ends.id
        FOR UPDATE OF ends
    );
    -- A key that is held by another job meanwhile keeps its job where it is.
    WITH asked AS (
        SELECT DISTINCT ON (unique_key) unique_key, id, scope
        FROM {schema}.jobs
        WHERE id = ANY (v_ids)
          AND scope IN ('s', 'f')
        ORDER BY unique_key, array_position(a_ids, id)
    ), taken AS (
        INSERT INTO {schema}.uniques AS held (key, id, scope, until)
        SELECT unique_key, id, scope, 0
        FROM asked
        ORDER BY unique_key
        ON CONFLICT (key) DO UPDATE
        SET id = excluded.id,
            scope = excluded.scope,
            until = 0
        WHERE held.id = excluded.id
           OR (held.scope = 'w' AND held.until <= v_now)
        RETURNING id
    )
    SELECT array_agg(id)
    INTO v_keyed
    FROM taken;

    WITH gone AS (
        DELETE FROM {schema}.ends
        USING {schema}.jobs, {schema}.shelves
        WHERE ends.id = ANY (v_ids)
          AND jobs.id = ends.id
          AND shelves.id = ends.shelf
          AND (jobs.scope IS NULL OR jobs.scope = 'w' OR jobs.id = ANY (v_keyed))
        RETURNING
            ends.id, ends.token, ends.attempt, shelves.verdict, jobs.parent, jobs.priority, jobs.lane_limit, jobs.queue,
            jobs.lane, nullif(jobs.scope, 'w') AS scope
    ), to_tries AS (
        INSERT INTO {schema}.tries (id, at, token, attempt)
        SELECT id, v_now, token, attempt
        FROM gone
        WHERE token IS NOT NULL
    ), counted AS (
        INSERT INTO {schema}.deltas (queue, dead, cancelled)
        SELECT queue, -count(*) FILTER (WHERE verdict = 'dead'), -count(*) FILTER (WHERE verdict = 'cancelled')
        FROM gone
        GROUP BY queue
    )
    SELECT
        array_agg(id ORDER BY array_position(a_ids, id)),
        array_agg(
            ROW (id, parent, v_now, 0, 0, priority, lane_limit, false, scope, queue, lane)::{schema}.newcomer
            ORDER BY array_position(a_ids, id)
        )
    INTO v_ids, v_newcomers
    FROM gone;
    IF v_newcomers IS NULL THEN
        RETURN;
    END IF;

    IF {schema}.admit_1(v_newcomers, v_now) IS NOT NULL THEN
        PERFORM {schema}.wake_1(v_now);
    END IF;
    IF a_log THEN
        PERFORM {schema}.log_1({schema}.packed_1('p', v_ids), v_now);
    END IF;
    RETURN QUERY
    SELECT *
    FROM unnest(v_ids);
END
$packhorse$;
