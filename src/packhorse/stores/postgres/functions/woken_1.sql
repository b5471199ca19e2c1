-- A record was put: the jobs that wait for it leave the waits and are handed back as newcomers.
CREATE FUNCTION {schema}.woken_1(a_kind text, a_key text, a_version bigint, a_now bigint)
RETURNS {schema}.newcomer[]
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_newcomers {schema}.newcomer[];
BEGIN
    WITH gone AS (
        DELETE FROM {schema}.waits
        WHERE id = ANY (ARRAY(
            SELECT id
            FROM {schema}.waits
            WHERE reason = 'signal'
              AND on_kind = a_kind
              AND on_key = a_key
              AND after < a_version
            ORDER BY id
            FOR UPDATE
        ))
        RETURNING *
    ), counted AS (
        INSERT INTO {schema}.deltas (queue, waiting)
        SELECT queue, -count(*)
        FROM gone
        GROUP BY queue
    )
    SELECT array_agg(
        ROW (id, parent, a_now, attempt, lost, priority, lane_limit, slot, scope, queue, lane, NULL)::{schema}.newcomer
        ORDER BY seq
    )
    INTO v_newcomers
    FROM gone;
    RETURN v_newcomers;
END
$packhorse$;
