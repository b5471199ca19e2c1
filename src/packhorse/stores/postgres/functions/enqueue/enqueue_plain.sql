-- Store jobs that are ready at once and concern no others: without lane, unique key, parent, children or delay, and with
-- ids that nobody chose. Of what kind each is (task, queue, priority, tenant, headers) is a number into the lists
-- of kinds, and how many are of each kind.
-- All or none: a known id is refused as a violation of uniqueness, and enqueue has the answer then. So nothing is looked
-- for row by row: ids are made as time goes on, and hardly ever lies a tomb between the lowest and the highest of a call.
-- The event for the lifecycle comes packed, for the caller has the ids as bytes; null if there is none.
CREATE FUNCTION {set}enqueue_plain(
    a_ids uuid[],
    a_lowest uuid,
    a_highest uuid,
    a_kinds integer[],
    a_tasks text[],
    a_queues text[],
    a_priorities integer[],
    a_tenants text[],
    a_headers bytea[],
    a_counts integer[],
    a_payloads bytea[],
    a_event bytea,
    a_now bigint
)
RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {set}call_time(a_now);
    v_seq bigint := nextval({arrival});  -- with room behind it for all of a call
BEGIN
    PERFORM 1
    FROM {schema}.tombstones
    WHERE id BETWEEN a_lowest AND a_highest
    ORDER BY id
    LIMIT 1;
    IF FOUND THEN
        PERFORM 1
        FROM {schema}.tombstones
        WHERE id = ANY (a_ids);
        IF FOUND THEN
            RAISE unique_violation USING MESSAGE = 'a job with one of these ids has been here';
        END IF;
    END IF;
    WITH to_jobs AS (
        INSERT INTO {schema}.jobs (id, enqueued_at, due, seq, priority, queue, task, tenant, headers, payload)
        SELECT
            id, v_now, v_now, v_seq + n, a_priorities[kind], a_queues[kind], a_tasks[kind], a_tenants[kind],
            a_headers[kind], payload
        FROM (
            SELECT
                unnest(a_ids) AS id,
                unnest(a_kinds) AS kind,
                unnest(a_payloads) AS payload,
                generate_subscripts(a_ids, 1) AS n
        ) AS job
    ), to_ready AS (
        INSERT INTO {schema}.ready (since, seq, id, priority, fresh, queue)
        SELECT v_now, v_seq + n, id, a_priorities[kind], true, a_queues[kind]
        FROM (
            SELECT unnest(a_ids) AS id, unnest(a_kinds) AS kind, generate_subscripts(a_ids, 1) AS n
        ) AS job
    ), logged AS (
        INSERT INTO {schema}.lifecycle (at, data)
        SELECT v_now, a_event
        WHERE a_event IS NOT NULL
    )
    INSERT INTO {schema}.count_deltas (queue, ready)
    SELECT queue, sum(jobs)
    FROM unnest(a_queues, a_counts) AS kind (queue, jobs)
    GROUP BY queue;
    PERFORM {set}wake_idle_workers(v_now);
END
$packhorse$;
