-- Leave the outcomes of ended children for their parents, count them once, and hand back the parents they release.
CREATE FUNCTION {set}deliver_to_parents(a_ended {set}ended_job[], a_now bigint)
RETURNS {set}newcomer[]
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_parents uuid[];
    v_keys text[];
    v_versions bigint[];
    v_newcomers {set}newcomer[];
BEGIN
    v_parents := {set}lock_living_parents(ARRAY(SELECT parent FROM unnest(a_ended) WHERE parent IS NOT NULL));
    IF cardinality(v_parents) = 0 THEN
        RETURN NULL;
    END IF;
    PERFORM {set}lock_families(v_parents);

    WITH delivered_now AS (
        INSERT INTO {schema}.records AS old (kind, key, value, version, due, expires)
        SELECT
            'packhorse.delivered',
            replace(parent::text, '-', '') || '/' || replace(id::text, '-', ''),
            convert_to(verdict, 'UTF8') || coalesce(' '::bytea || result, ''),
            a_now,
            0,
            0
        FROM unnest(a_ended)
        WHERE parent = ANY (v_parents)
        ORDER BY parent, id
        ON CONFLICT (kind, key) DO UPDATE
        SET value = excluded.value,
            version = greatest(old.version + 1, a_now)
        RETURNING key, version, xmax = 0 AS fresh  -- a row that was there already has been locked by us: xmax is set
    ), counted AS (
        UPDATE {schema}.families
        SET delivered = families.delivered + delivered_now.fresh
        FROM (
            SELECT left(key, 32)::uuid AS id, count(*) AS fresh
            FROM delivered_now
            WHERE fresh
            GROUP BY 1
        ) AS delivered_now
        WHERE families.id = delivered_now.id
    )
    SELECT array_agg(key), array_agg(version)
    INTO v_keys, v_versions
    FROM delivered_now;

    PERFORM 1
    FROM {schema}.waiting
    WHERE id = ANY (v_parents)
    ORDER BY id
    FOR UPDATE;
    WITH gone AS (
        DELETE FROM {schema}.waiting
        USING {schema}.families
        WHERE waiting.id = ANY (v_parents)
          AND families.id = waiting.id
          AND waiting.reason = 'children'
          AND waiting.pending <= families.delivered
        RETURNING waiting.*
    ), moved AS MATERIALIZED (
        SELECT
            gone.*,
            CASE
                WHEN (
                    SELECT 1 FROM {schema}.tries WHERE tries.id = gone.id ORDER BY tries.id, tries.seq LIMIT 1
                ) IS NULL THEN jobs.due
                ELSE 0  -- one that was run before has had its moment
            END AS due
        FROM gone
        JOIN {schema}.jobs USING (id)
    ), to_scheduled AS (
        INSERT INTO {schema}.scheduled (due, id, parent, attempt, lost, priority, lane_limit, slot, scope, queue, lane)
        SELECT due, id, parent, attempt, lost, priority, lane_limit, slot, scope, queue, lane
        FROM moved
        WHERE due > a_now
        ORDER BY seq
    ), counted AS (
        INSERT INTO {schema}.count_deltas (queue, waiting, scheduled)
        SELECT queue, -count(*), count(*) FILTER (WHERE due > a_now)
        FROM moved
        GROUP BY queue
    )
    SELECT array_agg(
        ROW (id, parent, a_now, attempt, lost, priority, lane_limit, slot, scope, queue, lane, NULL)::{set}newcomer
        ORDER BY seq
    )
    INTO v_newcomers
    FROM moved
    WHERE due <= a_now;

    FOR v_at IN 1..cardinality(v_keys) LOOP
        v_newcomers := v_newcomers || {set}release_waiting_on('packhorse.delivered', v_keys[v_at], v_versions[v_at], a_now);
    END LOOP;
    RETURN v_newcomers;
END
$packhorse$;
