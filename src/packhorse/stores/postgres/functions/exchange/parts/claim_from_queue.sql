-- Lease the best jobs of a queue; rows that another call is just taking are passed over. Stops before the first job that
-- does not fit in the bytes that are left of the ask; those left are less than none then.
-- Jobs that have come due are taken where they stand, merged with the ready ones by the moment they came due.
CREATE FUNCTION {set}claim_from_queue(
    a_queue text,
    a_want integer,
    a_worker uuid,
    a_token uuid,
    a_until bigint,
    a_bookmarks json,
    a_any boolean,  -- whether something was leased before, and this claim may come away with nothing
    a_now bigint,
    INOUT io_bytes bigint,
    OUT o_ids uuid[]
)
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_priority smallint := -1;
    v_priorities smallint[] := '{}';
    v_places tid[];
    v_sizes integer[];
    v_started uuid[];
    v_left bigint;
BEGIN
    LOOP  -- two probes for each priority that has anything scheduled
        SELECT priority
        INTO v_priority
        FROM {schema}.scheduled
        WHERE queue = a_queue
          AND priority > v_priority
          AND (lane IS NULL OR slot)
        ORDER BY queue, priority
        LIMIT 1;
        EXIT WHEN NOT FOUND;
        IF (
            SELECT due
            FROM {schema}.scheduled
            WHERE queue = a_queue
              AND priority = v_priority
              AND (lane IS NULL OR slot)
            ORDER BY queue, priority, due, seq
            LIMIT 1
        ) <= a_now THEN
            v_priorities := v_priorities || v_priority;
        END IF;
    END LOOP;

    IF a_bookmarks IS NOT NULL THEN
        v_places := {set}claimable_from_bookmark(a_queue, a_want, a_bookmarks);
    END IF;
    IF cardinality(v_priorities) = 0 THEN
        IF v_places IS NULL THEN
            SELECT array_agg(place), array_agg(size), io_bytes - sum(size)
            INTO v_places, v_sizes, v_left
            FROM (
                SELECT ctid AS place, (
                    SELECT octet_length(payload) + octet_length(headers)
                    FROM {schema}.jobs
                    WHERE jobs.id = ready.id
                ) AS size
                FROM {schema}.ready
                WHERE queue = a_queue
                ORDER BY queue, priority, since, seq
                LIMIT a_want
                FOR UPDATE SKIP LOCKED
            ) AS best;
        ELSE
            SELECT array_agg(size), io_bytes - sum(size)
            INTO v_sizes, v_left
            FROM (
                SELECT (
                    SELECT octet_length(payload) + octet_length(headers)
                    FROM {schema}.jobs
                    WHERE jobs.id = ready.id
                ) AS size
                FROM {schema}.ready
                WHERE ctid = ANY (v_places)
                ORDER BY priority, since, seq
            ) AS best;
        END IF;
        IF v_left < 0 THEN
            v_places := v_places[: {set}count_fitting(v_sizes, io_bytes, a_any)];
        END IF;
        WITH picked AS (
            DELETE FROM {schema}.ready
            WHERE ctid = ANY (v_places)
            RETURNING *
        ), leased AS (
            INSERT INTO {schema}.running (
                claimed, until, since, seq, id, token, worker, parent, attempt, lost, priority, lane_limit, scope, queue, lane
            )
            SELECT
                a_now, a_until, since, seq, id, a_token, a_worker, parent, attempt + 1, lost, priority, lane_limit,
                nullif(scope, 's'), queue, lane
            FROM picked
        ), counted AS (
            INSERT INTO {schema}.count_deltas (queue, ready, running)
            SELECT a_queue, -count(*), count(*)
            FROM picked
            HAVING count(*) > 0
        )
        SELECT array_agg(id ORDER BY priority, since, seq), array_agg(id) FILTER (WHERE scope = 's')
        INTO o_ids, v_started
        FROM picked;
    ELSE
        WITH ready_ones AS MATERIALIZED (
            SELECT ctid AS place, id, priority, since, seq
            FROM {schema}.ready
            WHERE ctid = ANY (coalesce(v_places, ARRAY(
                SELECT ctid
                FROM {schema}.ready
                WHERE queue = a_queue
                ORDER BY queue, priority, since, seq
                LIMIT a_want
                FOR UPDATE SKIP LOCKED
            )))
        ), scheduled_ones AS MATERIALIZED (
            SELECT come.*
            FROM unnest(v_priorities) AS present (priority)
            CROSS JOIN LATERAL (
                SELECT ctid AS place, scheduled.id, scheduled.priority, scheduled.due AS since, scheduled.seq
                FROM {schema}.scheduled
                WHERE scheduled.queue = a_queue
                  AND scheduled.priority = present.priority
                  AND scheduled.due <= a_now
                  AND (scheduled.lane IS NULL OR scheduled.slot)
                ORDER BY scheduled.queue, scheduled.priority, scheduled.due, scheduled.seq
                LIMIT a_want
                FOR UPDATE SKIP LOCKED
            ) AS come
        ), first_ones AS MATERIALIZED (
            SELECT *
            FROM (
                SELECT false AS was_scheduled, * FROM ready_ones
                UNION ALL
                SELECT true, * FROM scheduled_ones
            ) AS either
            ORDER BY priority, since, seq
            LIMIT a_want
        ), weighed AS MATERIALIZED (
            SELECT
                *,
                row_number() OVER best_first AS n,
                sum((
                    SELECT octet_length(payload) + octet_length(headers)
                    FROM {schema}.jobs
                    WHERE jobs.id = first_ones.id
                )) OVER best_first AS bytes
            FROM first_ones
            WINDOW best_first AS (ORDER BY priority, since, seq ROWS UNBOUNDED PRECEDING)
        ), best AS MATERIALIZED (
            SELECT *
            FROM weighed
            WHERE bytes <= io_bytes OR n = 1 AND NOT a_any
        ), from_ready AS (
            DELETE FROM {schema}.ready
            WHERE ctid = ANY (ARRAY(SELECT place FROM best WHERE NOT was_scheduled))
            RETURNING since, seq, id, parent, attempt, lost, priority, lane_limit, scope, queue, lane
        ), from_scheduled AS (
            DELETE FROM {schema}.scheduled
            WHERE ctid = ANY (ARRAY(SELECT place FROM best WHERE was_scheduled))
            RETURNING due AS since, seq, id, parent, attempt, lost, priority, lane_limit, scope, queue, lane
        ), picked AS MATERIALIZED (
            SELECT *, false AS was_scheduled FROM from_ready
            UNION ALL
            SELECT *, true FROM from_scheduled
        ), leased AS (
            INSERT INTO {schema}.running (
                claimed, until, since, seq, id, token, worker, parent, attempt, lost, priority, lane_limit, scope, queue, lane
            )
            SELECT
                a_now, a_until, since, seq, id, a_token, a_worker, parent, attempt + 1, lost, priority, lane_limit,
                nullif(scope, 's'), queue, lane
            FROM picked
        ), counted AS (
            INSERT INTO {schema}.count_deltas (queue, scheduled, ready, running)
            SELECT a_queue, -count(*) FILTER (WHERE was_scheduled), -count(*) FILTER (WHERE NOT was_scheduled), count(*)
            FROM picked
            HAVING count(*) > 0
        )
        SELECT array_agg(id ORDER BY priority, since, seq), array_agg(id) FILTER (WHERE scope = 's'),
            io_bytes - (SELECT max(bytes) FROM weighed)
        INTO o_ids, v_started, v_left
        FROM picked;
    END IF;

    IF v_started IS NOT NULL THEN
        PERFORM {set}free_unique_keys(v_started);
    END IF;
    o_ids := coalesce(o_ids, '{}');
    io_bytes := coalesce(v_left, io_bytes);
END
$packhorse$;
