-- Lease the best jobs of a queue; rows that another call is just taking are passed over.
-- Jobs that have come due are taken where they stand, merged with the ready ones by the moment they came due.
CREATE FUNCTION {schema}.claim_1(
    a_queue text,
    a_want integer,
    a_worker uuid,
    a_token uuid,
    a_until bigint,
    a_hints json,
    a_now bigint
)
RETURNS uuid[]
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_priority smallint := -1;
    v_priorities smallint[] := '{}';
    v_places tid[];
    v_ids uuid[];
    v_started uuid[];
BEGIN
    LOOP  -- two probes for each priority that has anything scheduled
        SELECT priority
        INTO v_priority
        FROM {schema}.due
        WHERE queue = a_queue
          AND priority > v_priority
          AND (lane IS NULL OR slot)
        ORDER BY queue, priority
        LIMIT 1;
        EXIT WHEN NOT FOUND;
        IF (
            SELECT due
            FROM {schema}.due
            WHERE queue = a_queue
              AND priority = v_priority
              AND (lane IS NULL OR slot)
            ORDER BY queue, priority, due, seq
            LIMIT 1
        ) <= a_now THEN
            v_priorities := v_priorities || v_priority;
        END IF;
    END LOOP;

    IF a_hints IS NOT NULL THEN
        v_places := {schema}.spots_1(a_queue, a_want, a_hints);
    END IF;
    IF cardinality(v_priorities) = 0 THEN
        WITH picked AS (
            DELETE FROM {schema}.ready
            WHERE ctid = ANY (coalesce(v_places, ARRAY(
                SELECT ctid
                FROM {schema}.ready
                WHERE queue = a_queue
                ORDER BY queue, priority, since, seq
                LIMIT a_want
                FOR UPDATE SKIP LOCKED
            )))
            RETURNING *
        ), leased AS (
            INSERT INTO {schema}.leases (
                until, since, seq, id, token, worker, parent, attempt, lost, priority, lane_limit, scope, queue, lane
            )
            SELECT
                a_until, since, seq, id, a_token, a_worker, parent, attempt + 1, lost, priority, lane_limit,
                nullif(scope, 's'), queue, lane
            FROM picked
        ), counted AS (
            INSERT INTO {schema}.deltas (queue, ready, running)
            SELECT a_queue, -count(*), count(*)
            FROM picked
            HAVING count(*) > 0
        )
        SELECT array_agg(id ORDER BY priority, since, seq), array_agg(id) FILTER (WHERE scope = 's')
        INTO v_ids, v_started
        FROM picked;
    ELSE
        WITH ready_ones AS MATERIALIZED (
            SELECT ctid AS place, priority, since, seq
            FROM {schema}.ready
            WHERE ctid = ANY (coalesce(v_places, ARRAY(
                SELECT ctid
                FROM {schema}.ready
                WHERE queue = a_queue
                ORDER BY queue, priority, since, seq
                LIMIT a_want
                FOR UPDATE SKIP LOCKED
            )))
        ), due_ones AS MATERIALIZED (
            SELECT come.*
            FROM unnest(v_priorities) AS present (priority)
            CROSS JOIN LATERAL (
                SELECT ctid AS place, due.priority, due.due AS since, due.seq
                FROM {schema}.due
                WHERE due.queue = a_queue
                  AND due.priority = present.priority
                  AND due.due <= a_now
                  AND (due.lane IS NULL OR due.slot)
                ORDER BY due.queue, due.priority, due.due, due.seq
                LIMIT a_want
                FOR UPDATE SKIP LOCKED
            ) AS come
        ), best AS MATERIALIZED (
            SELECT *
            FROM (
                SELECT false AS was_due, * FROM ready_ones
                UNION ALL
                SELECT true, * FROM due_ones
            ) AS either
            ORDER BY priority, since, seq
            LIMIT a_want
        ), from_ready AS (
            DELETE FROM {schema}.ready
            WHERE ctid = ANY (ARRAY(SELECT place FROM best WHERE NOT was_due))
            RETURNING since, seq, id, parent, attempt, lost, priority, lane_limit, scope, queue, lane
        ), from_due AS (
            DELETE FROM {schema}.due
            WHERE ctid = ANY (ARRAY(SELECT place FROM best WHERE was_due))
            RETURNING due AS since, seq, id, parent, attempt, lost, priority, lane_limit, scope, queue, lane
        ), picked AS MATERIALIZED (
            SELECT *, false AS was_due FROM from_ready
            UNION ALL
            SELECT *, true FROM from_due
        ), leased AS (
            INSERT INTO {schema}.leases (
                until, since, seq, id, token, worker, parent, attempt, lost, priority, lane_limit, scope, queue, lane
            )
            SELECT
                a_until, since, seq, id, a_token, a_worker, parent, attempt + 1, lost, priority, lane_limit,
                nullif(scope, 's'), queue, lane
            FROM picked
        ), counted AS (
            INSERT INTO {schema}.deltas (queue, scheduled, ready, running)
            SELECT a_queue, -count(*) FILTER (WHERE was_due), -count(*) FILTER (WHERE NOT was_due), count(*)
            FROM picked
            HAVING count(*) > 0
        )
        SELECT array_agg(id ORDER BY priority, since, seq), array_agg(id) FILTER (WHERE scope = 's')
        INTO v_ids, v_started
        FROM picked;
    END IF;

    IF v_started IS NOT NULL THEN
        PERFORM {schema}.free_1(v_started);
    END IF;
    RETURN coalesce(v_ids, '{}');
END
$packhorse$;
