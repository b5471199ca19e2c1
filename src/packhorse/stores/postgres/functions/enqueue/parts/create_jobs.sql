-- Write the records of new jobs and put each in its place. If any of the call has a lane, all that could be ready are
-- handed back as newcomers, so that the order of arrival is theirs as they came.
-- With a_laned null the call must not lock lanes, for its transaction may stay open: jobs with a lane go to due, at once,
-- and the next claim lets them in. Whoever comes after them in the same lane, or after a job that
-- has come due there, goes there too and does not overtake them.
-- A run holds no unique key twice, and if it holds any, no id twice. Jobs by a refused settlement are left out.
CREATE FUNCTION {set}create_jobs(
    a_run json,
    a_keyed boolean,
    a_laned boolean,
    a_refused integer[],
    a_now bigint,
    OUT o_created uuid[],
    OUT o_newcomers {set}newcomer[],
    OUT o_ready text[],
    OUT o_others integer[],
    OUT o_holders uuid[]
)
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_given integer;
    v_keys text[];
    v_keyed integer;
BEGIN
    IF a_keyed THEN
        -- Keys first, in order: a job whose key is held by another must not be created.
        -- Lookups by id are scalar sub-selects, which the planner cannot turn into a scan of the whole table.
        WITH asked AS MATERIALIZED (
            SELECT job.*
            FROM json_to_recordset(a_run) AS job (
                id uuid, "by" integer, unique_key text COLLATE "C", scope "char", "window" bigint
            )
            WHERE job.unique_key IS NOT NULL
              AND (a_refused IS NULL OR job."by" <> ALL (a_refused))
        ), taken AS (
            INSERT INTO {schema}.unique_keys AS held (key, id, scope, until)
            SELECT unique_key, id, scope, CASE WHEN scope = 'w' THEN a_now + "window" ELSE 0 END
            FROM asked
            WHERE (SELECT 1 FROM {schema}.jobs WHERE jobs.id = asked.id) IS NULL
              AND (SELECT 1 FROM {schema}.tombstones WHERE tombstones.id = asked.id) IS NULL
              AND (
                  SELECT 1
                  FROM {schema}.unique_keys
                  WHERE unique_keys.key = asked.unique_key
                    AND (unique_keys.scope <> 'w' OR unique_keys.until > a_now)
              ) IS NULL
            ORDER BY unique_key
            ON CONFLICT (key) DO UPDATE
            SET id = excluded.id,
                scope = excluded.scope,
                until = excluded.until
            WHERE held.scope = 'w'
              AND held.until <= a_now
            RETURNING key
        )
        SELECT array_agg(key)
        INTO v_keys
        FROM taken;
    END IF;

    WITH given AS (
        SELECT
            job.id,
            job.task,
            coalesce(job.queue, 'default') AS queue,
            coalesce(job.priority, 10)::smallint AS priority,
            greatest(coalesce(job.at, 0), a_now + coalesce(job.delay, 0)) AS due,
            job.lane,
            coalesce(job.lane_limit, 1)::smallint AS lane_limit,
            job.parent,
            coalesce(job.children, 0) AS children,
            job.tenant,
            job.unique_key,
            job.scope,
            convert_to(coalesce(job.headers, '{}'), 'UTF8') AS headers,
            convert_to(coalesce(job.payload, '{}'), 'UTF8') AS payload
        FROM json_to_recordset(a_run) AS job (
            id uuid, "by" integer, task text, queue text, priority integer, delay bigint, at bigint,
            lane text, lane_limit integer, parent uuid, children integer, tenant text,
            unique_key text COLLATE "C", scope "char", headers text, payload text
        )
        WHERE (a_refused IS NULL OR job."by" <> ALL (a_refused))
          AND (job.unique_key IS NULL OR job.unique_key = ANY (v_keys))
          AND (SELECT 1 FROM {schema}.tombstones WHERE tombstones.id = job.id) IS NULL
    ), made AS (
        INSERT INTO {schema}.jobs (
            id, enqueued_at, due, parent, children, priority, lane_limit, scope, queue, task, lane, tenant,
            unique_key, headers, payload
        )
        SELECT
            id, a_now, due, parent, children, priority, lane_limit, scope, queue, task, lane, tenant,
            unique_key, headers, payload
        FROM given
        ON CONFLICT (id) DO NOTHING
        RETURNING
            id, parent, due, children, priority, lane_limit, nullif(scope, 'w') AS scope, queue, lane, unique_key,
            CASE
                WHEN children > 0 THEN 'waiting'
                WHEN due > a_now THEN 'scheduled'
                WHEN lane IS NOT NULL AND (
                    a_laned IS NULL
                    OR (
                        SELECT before.due <= a_now
                        FROM {schema}.scheduled AS before
                        WHERE before.queue = jobs.queue
                          AND before.lane = jobs.lane
                          AND before.lane IS NOT NULL
                          AND NOT before.slot
                        ORDER BY before.queue, before.lane, before.due
                        LIMIT 1
                    )
                    OR EXISTS (
                        SELECT 1
                        FROM {schema}.scheduled AS before
                        WHERE before.queue = jobs.queue
                          AND before.lane = jobs.lane
                          AND before.arrived
                    )
                ) THEN 'arrives'
                WHEN a_laned THEN 'asks'
                ELSE 'ready'
            END AS place
    ), to_ready AS (
        INSERT INTO {schema}.ready (since, id, parent, attempt, lost, priority, lane_limit, scope, queue, lane)
        SELECT a_now, id, parent, 0, 0, priority, lane_limit, scope, queue, lane
        FROM made
        WHERE place = 'ready'
    ), to_scheduled AS (
        INSERT INTO {schema}.scheduled (due, id, parent, attempt, lost, priority, lane_limit, slot, arrived, scope, queue, lane)
        SELECT
            CASE WHEN place = 'arrives' THEN {set}arrival_due_at(queue, lane, a_now) ELSE due END,
            id, parent, 0, 0, priority, lane_limit, false, place = 'arrives', scope, queue, lane
        FROM made
        WHERE place IN ('scheduled', 'arrives')
    ), to_waiting AS (
        INSERT INTO {schema}.waiting (
            since, id, parent, attempt, lost, pending, priority, lane_limit, slot, scope, reason, queue, lane
        )
        SELECT a_now, id, parent, 0, 0, children, priority, lane_limit, false, scope, 'children', queue, lane
        FROM made
        WHERE place = 'waiting'
    ), counted AS (
        INSERT INTO {schema}.count_deltas (queue, scheduled, ready, waiting)
        SELECT
            queue,
            count(*) FILTER (WHERE place IN ('scheduled', 'arrives')),
            count(*) FILTER (WHERE place = 'ready'),
            count(*) FILTER (WHERE place = 'waiting')
        FROM made
        GROUP BY queue
    )
    SELECT
        array_agg(id),
        array_agg(
            ROW (id, parent, a_now, 0, 0, priority, lane_limit, false, scope, queue, lane, NULL)::{set}newcomer
        ) FILTER (WHERE place = 'asks'),
        array_agg(DISTINCT queue) FILTER (WHERE place IN ('ready', 'arrives')),
        count(unique_key)
    INTO o_created, o_newcomers, o_ready, v_keyed
    FROM made;

    -- Another call was just faster with an id whose key we took, or pruned an id that is to be remembered: once more.
    IF v_keyed < coalesce(cardinality(v_keys), 0) THEN
        RAISE serialization_failure USING MESSAGE = 'the id of a unique job was taken meanwhile';
    END IF;
    PERFORM 1
    FROM unnest(o_created) AS job (id)
    WHERE get_byte(uuid_send(id), 6) >> 4 = 8
      AND (SELECT 1 FROM {schema}.tombstones WHERE tombstones.id = job.id) IS NOT NULL;
    IF FOUND THEN
        RAISE serialization_failure USING MESSAGE = 'a remembered job was pruned meanwhile';
    END IF;

    -- Whose place is taken: by the job with that id, else by the holder of the key.
    IF coalesce(cardinality(o_created), 0) < json_array_length(a_run) THEN
        SELECT array_agg(n), array_agg(holder)
        INTO o_others, o_holders
        FROM (
            SELECT
                n,
                id,
                CASE
                    WHEN unique_key IS NULL
                      OR (SELECT 1 FROM {schema}.jobs WHERE jobs.id = job.id) IS NOT NULL
                      OR (SELECT 1 FROM {schema}.tombstones WHERE tombstones.id = job.id) IS NOT NULL
                    THEN id
                    ELSE coalesce((SELECT unique_keys.id FROM {schema}.unique_keys WHERE key = unique_key), id)
                END AS holder,
                row_number() OVER (PARTITION BY id ORDER BY n) AS again
            FROM ROWS FROM (
                json_to_recordset(a_run) AS (id uuid, unique_key text)
            ) WITH ORDINALITY AS job (id, unique_key, n)
        ) AS job
        WHERE again > 1
           OR id <> ALL (coalesce(o_created, '{}'));
    END IF;
END
$packhorse$;
