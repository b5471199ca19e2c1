-- Move leased jobs to the places their outcomes name, all at once. What is not plain done has a detail by position.
-- Answers which settlements were written, which of them were cancelled instead of going on and lose their effects, the
-- ended jobs in order (all by id, those with a lane, parent or key in full; and, with nothing but their slot, those that
-- wait for children, which may be behind the same lane),
-- the queues that have something ready now, and the packed changes.
CREATE FUNCTION {set}settle_outcomes(
    a_ids uuid[],
    a_tokens uuid[],
    a_results bytea[],
    a_details json,
    a_refused integer[],
    a_satisfied integer[],
    a_keep_count bigint,
    a_keep_age bigint,
    a_failures integer,
    a_now bigint,
    OUT o_written integer[],
    OUT o_stopped integer[],
    OUT o_ids uuid[],
    OUT o_ended {set}ended_job[],
    OUT o_ready text[],
    OUT o_changes bytea
)
LANGUAGE plpgsql
SET enable_indexscan = off  -- or leases that were vacuumed while empty are all gone through, and each compared with all given
AS $packhorse$
DECLARE
    v_tried uuid[];
BEGIN
    WITH given AS MATERIALIZED (  -- by id: everybody locks leases in this order
        SELECT
            settlement.n::integer AS n,
            settlement.id,
            settlement.token,
            settlement.result,
            CASE
                WHEN settlement.n = ANY (a_satisfied) THEN 'again'
                ELSE coalesce(detail.kind, 'done')
            END AS kind,
            coalesce(detail.delay, 0) AS delay,
            coalesce(detail.charged, true) AS charged,
            convert_to(detail.error, 'UTF8') AS error,
            detail.reason,
            detail.detail,
            detail.children,
            detail.on_kind,
            detail.on_key,
            detail.after,
            coalesce(detail.keep_count, a_keep_count) AS keep_count,
            coalesce(detail.keep_age, a_keep_age) AS keep_age
        FROM unnest(a_ids, a_tokens, a_results) WITH ORDINALITY AS settlement (id, token, result, n)
        LEFT JOIN json_to_recordset(a_details) AS detail (
            n integer, kind text, delay bigint, charged boolean, error text, reason text, detail text, children integer,
            on_kind text, on_key text, after bigint, keep_count bigint, keep_age bigint
        ) ON detail.n = settlement.n
        WHERE (a_refused IS NULL OR settlement.n <> ALL (a_refused))
          AND detail.kind IS DISTINCT FROM 'held'
        ORDER BY settlement.id
    ), gone AS (
        DELETE FROM {schema}.running
        USING given
        WHERE running.id = given.id
          AND running.token = given.token
        RETURNING
            given.*,
            running.parent,
            running.attempt,
            running.lost,
            running.priority,
            running.lane_limit,
            running.scope,
            running.queue,
            running.lane,
            CASE
                WHEN running.cancelling AND given.kind IN ('again', 'wait') THEN 'cancelled'
                ELSE given.kind
            END AS outcome
    ), retention AS MATERIALIZED (
        SELECT *, {set}retention_group_id(queue, outcome, keep_count, keep_age) AS retention_group
        FROM (
            SELECT DISTINCT queue, outcome, keep_count, keep_age
            FROM gone
            WHERE outcome IN ('done', 'dead', 'cancelled')
        ) AS kinds
    ), to_ended AS (
        INSERT INTO {schema}.ended (finished, id, token, retention_group, attempt, lost, reason, result)
        SELECT
            a_now, id, token, retention_group, attempt, lost,
            CASE WHEN outcome = 'dead' THEN reason END,
            CASE WHEN outcome = 'done' THEN result END
        FROM gone
        JOIN retention USING (queue, outcome, keep_count, keep_age)
    ), to_ready AS (
        INSERT INTO {schema}.ready (since, id, parent, attempt, lost, priority, lane_limit, scope, queue, lane)
        SELECT a_now, id, parent, attempt - (NOT charged)::integer, lost, priority, lane_limit, scope, queue, lane
        FROM gone
        WHERE outcome = 'again'
          AND delay = 0
        ORDER BY n
    ), to_scheduled AS (
        INSERT INTO {schema}.scheduled (due, id, parent, attempt, lost, priority, lane_limit, slot, scope, queue, lane)
        SELECT
            a_now + delay, id, parent, attempt - (NOT charged)::integer, lost, priority, lane_limit,
            lane IS NOT NULL, scope, queue, lane
        FROM gone
        WHERE outcome = 'again'
          AND delay > 0
        ORDER BY n
    ), to_waiting AS (
        INSERT INTO {schema}.waiting (
            since, after, id, parent, attempt, lost, pending, priority, lane_limit, slot, scope, reason, queue, lane,
            on_kind, on_key, detail
        )
        SELECT
            a_now, after, id, parent, attempt - 1, lost, children, priority, lane_limit,
            lane IS NOT NULL AND reason <> 'children', scope, reason, queue, lane, on_kind, on_key, detail
        FROM gone
        WHERE outcome = 'wait'
        ORDER BY n
    ), to_tries AS (
        INSERT INTO {schema}.tries (id, at, token, attempt, error)
        SELECT id, a_now, token, attempt, error
        FROM gone
        WHERE outcome IN ('again', 'wait')
           OR error IS NOT NULL
        ORDER BY n
    ), counted AS (
        INSERT INTO {schema}.count_deltas (queue, scheduled, ready, running, waiting, done, dead, cancelled)
        SELECT
            queue,
            count(*) FILTER (WHERE outcome = 'again' AND delay > 0),
            count(*) FILTER (WHERE outcome = 'again' AND delay = 0),
            -count(*),
            count(*) FILTER (WHERE outcome = 'wait'),
            count(*) FILTER (WHERE outcome = 'done'),
            count(*) FILTER (WHERE outcome = 'dead'),
            count(*) FILTER (WHERE outcome = 'cancelled')
        FROM gone
        GROUP BY queue
    ), changes AS (
        SELECT
            CASE outcome
                WHEN 'done' THEN 'd'
                WHEN 'again' THEN 'r'
                WHEN 'wait' THEN 'w'
                WHEN 'dead' THEN 'k'
                ELSE 'c'
            END AS letter,
            array_agg(id ORDER BY n) AS ids
        FROM gone
        GROUP BY outcome
    )
    SELECT
        array_agg(n),
        array_agg(n) FILTER (WHERE outcome <> kind),
        array_agg(id) FILTER (WHERE outcome IN ('done', 'dead', 'cancelled')),
        array_agg(
            ROW (
                id, parent, attempt, lost, lane IS NOT NULL, scope, queue, lane, 'running', outcome,
                CASE WHEN outcome = 'done' AND parent IS NOT NULL THEN result END
            )::{set}ended_job
        ) FILTER (
            WHERE outcome IN ('done', 'dead', 'cancelled')
              AND (lane IS NOT NULL OR parent IS NOT NULL OR scope IS NOT NULL)
        ) || array_agg(
            ROW (id, NULL, attempt, lost, true, NULL, queue, lane, 'running', outcome, NULL)::{set}ended_job
        ) FILTER (WHERE outcome = 'wait' AND reason = 'children' AND lane IS NOT NULL),
        array_agg(queue) FILTER (WHERE outcome = 'again' AND delay = 0),
        array_agg(id) FILTER (WHERE outcome IN ('again', 'wait') OR error IS NOT NULL),
        (
            SELECT string_agg({set}pack_event(letter, ids), ''::bytea ORDER BY strpos('drwkc', letter))
            FROM changes
        )
    INTO o_written, o_stopped, o_ids, o_ended, o_ready, v_tried, o_changes
    FROM (SELECT * FROM gone ORDER BY n) AS gone;

    IF v_tried IS NOT NULL THEN  -- of each job the latest failures stay, and as many tokens without one
        DELETE FROM {schema}.tries
        WHERE ctid = ANY (ARRAY(
            SELECT old.place
            FROM unnest(v_tried) AS job (id)
            CROSS JOIN LATERAL (
                SELECT ctid AS place, row_number() OVER (PARTITION BY error IS NULL ORDER BY seq DESC) AS age
                FROM {schema}.tries
                WHERE tries.id = job.id
            ) AS old
            WHERE old.age > a_failures
        ));
    END IF;
END
$packhorse$;
