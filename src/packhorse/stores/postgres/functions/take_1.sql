-- Take jobs that are not running and have not ended out of their places, rows locked by id.
-- The line behind a lane is touched only under the lane's lock, so those who stand in it come last.
CREATE FUNCTION {schema}.take_1(a_ids uuid[])
RETURNS {schema}.ended[]
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_taken {schema}.ended[];
    v_waiting uuid[];
    v_lined {schema}.ended[];
BEGIN
    WITH from_ready AS (
        DELETE FROM {schema}.ready
        WHERE id = ANY (ARRAY(SELECT id FROM {schema}.ready WHERE id = ANY (a_ids) ORDER BY id FOR UPDATE))
        RETURNING *
    ), from_due AS (
        DELETE FROM {schema}.due
        WHERE id = ANY (ARRAY(SELECT id FROM {schema}.due WHERE id = ANY (a_ids) ORDER BY id FOR UPDATE))
        RETURNING *
    ), from_waits AS (
        DELETE FROM {schema}.waits
        WHERE id = ANY (ARRAY(
            SELECT id FROM {schema}.waits WHERE id = ANY (a_ids) AND reason <> 'lane' ORDER BY id FOR UPDATE
        ))
        RETURNING *
    )
    SELECT array_agg(taken::{schema}.ended)
    INTO v_taken
    FROM (
        SELECT id, parent, attempt, lost, lane IS NOT NULL, scope, queue, lane, 'ready', NULL, NULL::bytea FROM from_ready
        UNION ALL
        SELECT id, parent, attempt, lost, slot, scope, queue, lane, 'scheduled', NULL, NULL FROM from_due
        UNION ALL
        SELECT id, parent, attempt, lost, slot, scope, queue, lane, 'waiting', NULL, NULL FROM from_waits
    ) AS taken;

    v_waiting := ARRAY(
        SELECT waits.id
        FROM {schema}.lanes
        JOIN {schema}.waits USING (queue, lane)
        WHERE waits.id = ANY (a_ids)
          AND waits.reason = 'lane'
        ORDER BY lanes.queue, lanes.lane
        FOR UPDATE OF lanes
    );
    IF cardinality(v_waiting) > 0 THEN
        WITH from_line AS (
            DELETE FROM {schema}.waits
            WHERE id = ANY (v_waiting)
              AND reason = 'lane'
            RETURNING *
        )
        SELECT array_agg(
            ROW (id, parent, attempt, lost, false, scope, queue, lane, 'waiting', NULL, NULL)::{schema}.ended
        )
        INTO v_lined
        FROM from_line;
    END IF;
    RETURN v_taken || v_lined;
END
$packhorse$;
