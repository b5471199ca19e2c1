-- Store jobs that are ready at once and concern no others: without lane, unique key, parent, children or delay, and with
-- ids that nobody chose. All or none; answers, as enqueue_1 does, those whose place is taken: by the job with that id.
CREATE FUNCTION {schema}.enqueue_plain_1(
    a_ids uuid[],
    a_tasks text[],
    a_queues text[],
    a_priorities integer[],
    a_tenants text[],
    a_headers bytea[],
    a_payloads bytea[],
    a_log boolean,
    a_now bigint
)
RETURNS TABLE (o_n integer, o_holder uuid)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {schema}.moment_1(a_now);
    v_created uuid[];
BEGIN
    WITH made AS (
        INSERT INTO {schema}.jobs (
            id, born, due, children, priority, lane_limit, queue, task, tenant, headers, payload
        )
        SELECT id, v_now, v_now, 0, priority, 1, queue, task, tenant, headers, payload
        FROM unnest(a_ids, a_tasks, a_queues, a_priorities, a_tenants, a_headers, a_payloads)
            AS job (id, task, queue, priority, tenant, headers, payload)
        WHERE (SELECT 1 FROM {schema}.tombs WHERE tombs.id = job.id) IS NULL
        ON CONFLICT (id) DO NOTHING
        RETURNING id, priority, queue
    ), to_ready AS (
        INSERT INTO {schema}.ready (since, id, attempt, lost, priority, lane_limit, queue)
        SELECT v_now, id, 0, 0, priority, 1, queue
        FROM made
    ), counted AS (
        INSERT INTO {schema}.deltas (queue, ready)
        SELECT queue, count(*)
        FROM made
        GROUP BY queue
    )
    SELECT array_agg(id)
    INTO v_created
    FROM made;

    IF v_created IS NOT NULL THEN
        PERFORM {schema}.wake_1(v_now);
        IF a_log THEN
            PERFORM {schema}.log_1({schema}.packed_1('q', v_created), v_now);
        END IF;
    END IF;
    IF coalesce(cardinality(v_created), 0) < cardinality(a_ids) THEN
        RETURN QUERY
        SELECT n::integer, id
        FROM (
            SELECT n, id, row_number() OVER (PARTITION BY id ORDER BY n) AS again
            FROM unnest(a_ids) WITH ORDINALITY AS job (id, n)
        ) AS job
        WHERE again > 1
           OR id <> ALL (coalesce(v_created, '{}'));
    END IF;
END
$packhorse$;
