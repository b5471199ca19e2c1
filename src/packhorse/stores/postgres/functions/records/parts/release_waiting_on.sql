-- A record was put: the jobs that wait for it leave the waits and are handed back as newcomers.
CREATE FUNCTION {set}release_waiting_on(a_kind text, a_key text, a_version bigint, a_now bigint)
RETURNS {set}newcomer[]
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_newcomers {set}newcomer[];
BEGIN
    WITH gone AS (
        DELETE FROM {schema}.waiting
        WHERE id = ANY (ARRAY(
            SELECT id
            FROM {schema}.waiting
            WHERE reason = 'signal'
              AND on_kind = a_kind
              AND on_key = a_key
              AND after < a_version
            ORDER BY id
            FOR UPDATE
        ))
        RETURNING *
    ), counted AS (
        INSERT INTO {schema}.count_deltas (queue, waiting)
        SELECT queue, -count(*)
        FROM gone
        GROUP BY queue
    )
    SELECT array_agg(
        ROW (id, parent, a_now, attempt, lost, priority, lane_limit, slot, scope, queue, lane, NULL)::{set}newcomer
        ORDER BY seq
    )
    INTO v_newcomers
    FROM gone;
    RETURN v_newcomers;
END
$packhorse$;
