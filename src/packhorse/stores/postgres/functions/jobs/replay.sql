-- Make dead or cancelled jobs ready again as if they were new, and answer which were.
CREATE FUNCTION {set}replay(a_ids uuid[], a_log boolean, a_now bigint)
RETURNS SETOF uuid
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {set}call_time(a_now);
    v_ids uuid[];
    v_keyed uuid[];
    v_newcomers {set}newcomer[];
    v_parents uuid[];
BEGIN
    v_ids := ARRAY(
        SELECT ended.id
        FROM {schema}.ended
        JOIN {schema}.retention_groups ON retention_groups.id = ended.retention_group
        WHERE ended.id = ANY (a_ids)
          AND retention_groups.verdict IN ('dead', 'cancelled')
        ORDER BY ended.id
        FOR UPDATE OF ended
    );
    -- A key that is held by another job meanwhile keeps its job where it is.
    WITH asked AS (
        SELECT DISTINCT ON (unique_key) unique_key, id, scope
        FROM {schema}.jobs
        WHERE id = ANY (v_ids)
          AND scope IN ('s', 'f')
        ORDER BY unique_key, array_position(a_ids, id)
    ), taken AS (
        INSERT INTO {schema}.unique_keys AS held (key, id, scope, until)
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

    v_parents := ARRAY(SELECT id FROM {schema}.jobs WHERE id = ANY (v_ids) AND children > 0);
    PERFORM {set}lock_families({set}lock_living_parents(array_agg(id)))
    FROM (
        SELECT parent AS id FROM {schema}.jobs WHERE id = ANY (v_ids) AND parent IS NOT NULL
        UNION
        SELECT unnest(v_parents)
    ) AS concerned
    HAVING count(*) > 0;

    WITH gone AS (
        DELETE FROM {schema}.ended
        USING {schema}.jobs, {schema}.retention_groups
        WHERE ended.id = ANY (v_ids)
          AND jobs.id = ended.id
          AND retention_groups.id = ended.retention_group
          AND (jobs.scope IS NULL OR jobs.scope = 'w' OR jobs.id = ANY (v_keyed))
        RETURNING
            ended.id, ended.token, ended.attempt, retention_groups.verdict, jobs.parent, jobs.priority, jobs.lane_limit, jobs.queue,
            jobs.lane, nullif(jobs.scope, 'w') AS scope
    ), to_tries AS (
        INSERT INTO {schema}.tries (id, at, token, attempt)
        SELECT id, v_now, token, attempt
        FROM gone
        WHERE token IS NOT NULL
    ), taken_back AS (
        DELETE FROM {schema}.records
        USING gone
        WHERE kind = 'packhorse.delivered'
          AND key = replace(parent::text, '-', '') || '/' || replace(gone.id::text, '-', '')
        RETURNING parent
    ), fewer AS (
        UPDATE {schema}.families
        SET delivered = delivered - children
        FROM (SELECT parent, count(*) AS children FROM taken_back GROUP BY parent) AS taken_back
        WHERE id = parent
    ), counted AS (
        INSERT INTO {schema}.count_deltas (queue, dead, cancelled)
        SELECT queue, -count(*) FILTER (WHERE verdict = 'dead'), -count(*) FILTER (WHERE verdict = 'cancelled')
        FROM gone
        GROUP BY queue
    ), past AS (
        INSERT INTO {schema}.past_count_deltas (queue, dead, cancelled)
        SELECT queue, count(*) FILTER (WHERE verdict = 'dead'), count(*) FILTER (WHERE verdict = 'cancelled')
        FROM gone
        GROUP BY queue
    )
    SELECT
        array_agg(id ORDER BY array_position(a_ids, id)),
        array_agg(
            ROW (id, parent, v_now, 0, 0, priority, lane_limit, false, scope, queue, lane, NULL)::{set}newcomer
            ORDER BY array_position(a_ids, id)
        )
    INTO v_ids, v_newcomers
    FROM gone;
    IF v_newcomers IS NULL THEN
        RETURN;
    END IF;

    IF v_parents && v_ids THEN  -- one that has children waits for those whose ends are not delivered
        WITH waiting AS MATERIALIZED (
            SELECT newcomer.*, jobs.children
            FROM unnest(v_newcomers) AS newcomer
            JOIN {schema}.jobs USING (id)
            JOIN {schema}.families USING (id)
            WHERE jobs.children > families.delivered
        ), to_waiting AS (
            INSERT INTO {schema}.waiting (
                since, id, parent, attempt, lost, pending, priority, lane_limit, slot, scope, reason, queue, lane
            )
            SELECT since, id, parent, 0, 0, children, priority, lane_limit, false, scope, 'children', queue, lane
            FROM waiting
        ), counted AS (
            INSERT INTO {schema}.count_deltas (queue, waiting)
            SELECT queue, count(*)
            FROM waiting
            GROUP BY queue
        )
        SELECT array_agg(newcomer ORDER BY array_position(a_ids, newcomer.id))
        INTO v_newcomers
        FROM unnest(v_newcomers) AS newcomer
        WHERE newcomer.id <> ALL (ARRAY(SELECT id FROM waiting));
    END IF;
    IF v_newcomers IS NOT NULL AND {set}make_ready(v_newcomers, v_now) IS NOT NULL THEN
        PERFORM {set}wake_idle_workers(v_now);
    END IF;
    IF a_log THEN
        PERFORM {set}log_changes({set}pack_event('p', v_ids), v_now);
    END IF;
    RETURN QUERY
    SELECT *
    FROM unnest(v_ids);
END
$packhorse$;
