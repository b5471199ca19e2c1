-- Move leased jobs to their end: the plain case of settle_outcomes, in which every outcome is done and kept as usual.
CREATE FUNCTION {set}settle_done(
    a_ids uuid[],
    a_tokens uuid[],
    a_results bytea[],
    a_keep_count bigint,
    a_keep_age bigint,
    a_now bigint,
    OUT o_written integer[],
    OUT o_ids uuid[],
    OUT o_ended {set}ended_job[]
)
LANGUAGE plpgsql
SET enable_indexscan = off  -- or leases that were vacuumed while empty are all gone through, and each compared with all given
AS $packhorse$
BEGIN
    WITH given AS MATERIALIZED (  -- by id: everybody locks leases in this order
        SELECT
            unnest(a_ids) AS id,
            unnest(a_tokens) AS token,
            unnest(a_results) AS result,
            generate_subscripts(a_ids, 1) AS n
        ORDER BY id
    ), gone AS (
        DELETE FROM {schema}.running
        USING given
        WHERE running.id = given.id
          AND running.token = given.token
        RETURNING
            given.n, given.id, given.token, given.result, running.attempt, running.lost, running.parent, running.scope,
            running.queue, running.lane
    ), retention AS MATERIALIZED (
        SELECT queue, number AS jobs, {set}retention_group_id(queue, 'done', a_keep_count, a_keep_age) AS retention_group
        FROM (SELECT queue, count(*) AS number FROM gone GROUP BY queue) AS queues
    ), to_ended AS (
        INSERT INTO {schema}.ended (finished, id, token, retention_group, attempt, lost, result)
        SELECT a_now, id, token, retention_group, attempt, lost, result
        FROM gone
        JOIN retention USING (queue)
    ), counted AS (
        INSERT INTO {schema}.count_deltas (queue, running, done)
        SELECT queue, -jobs, jobs
        FROM retention
    )
    SELECT
        array_agg(n),
        array_agg(
            ROW (id, parent, attempt, lost, lane IS NOT NULL, scope, queue, lane, 'running', 'done',
                CASE WHEN parent IS NOT NULL THEN result END)::{set}ended_job
            ORDER BY n
        ) FILTER (WHERE lane IS NOT NULL OR parent IS NOT NULL OR scope IS NOT NULL)
    INTO o_written, o_ended
    FROM gone;
    o_ids := CASE
        WHEN cardinality(o_written) = cardinality(a_ids) THEN a_ids
        WHEN o_written IS NOT NULL THEN ARRAY(SELECT a_ids[n] FROM unnest(o_written) AS written (n) ORDER BY n)
    END;
END
$packhorse$;
