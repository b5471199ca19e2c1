-- End jobs that are not running, mark running ones, and answer where each stands now; unknown ones are left out.
-- Leases are locked before anything else, as everywhere, and each place is looked at once: if a job has moved meanwhile,
-- all is begun again without locks.
CREATE FUNCTION {schema}.cancel_1(a_ids uuid[], a_keep_count bigint, a_keep_age bigint, a_log boolean, a_now bigint)
RETURNS TABLE (o_id uuid, o_state text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {schema}.moment_1(a_now);
    v_left uuid[] := a_ids;
    v_taken {schema}.ended[];
    v_cancelled uuid[] := '{}';
    v_ready text[];
BEGIN
    FOR o_id, o_state IN
        UPDATE {schema}.leases
        SET cancelling = true
        WHERE id = ANY (ARRAY(SELECT id FROM {schema}.leases WHERE id = ANY (v_left) ORDER BY id FOR UPDATE))
        RETURNING id, 'running'
    LOOP
        RETURN NEXT;
        v_left := array_remove(v_left, o_id);
    END LOOP;
    v_taken := {schema}.take_1(v_left);
    FOR o_id, o_state IN
        SELECT ends.id, shelves.verdict
        FROM {schema}.ends
        JOIN {schema}.shelves ON shelves.id = ends.shelf
        WHERE ends.id = ANY (v_left)
    LOOP
        RETURN NEXT;
        v_left := array_remove(v_left, o_id);
    END LOOP;

    IF v_taken IS NOT NULL THEN
        WITH shelves AS MATERIALIZED (
            SELECT queue, {schema}.shelf_1(queue, 'cancelled', a_keep_count, a_keep_age) AS shelf
            FROM (SELECT DISTINCT queue FROM unnest(v_taken)) AS queues
        ), to_ends AS (
            INSERT INTO {schema}.ends (finished, id, shelf, attempt, lost)
            SELECT v_now, id, shelf, attempt, lost
            FROM unnest(v_taken)
            JOIN shelves USING (queue)
        ), counted AS (
            INSERT INTO {schema}.deltas (queue, scheduled, ready, waiting, cancelled)
            SELECT
                queue,
                -count(*) FILTER (WHERE was = 'scheduled'),
                -count(*) FILTER (WHERE was = 'ready'),
                -count(*) FILTER (WHERE was = 'waiting'),
                count(*)
            FROM unnest(v_taken)
            GROUP BY queue
        )
        SELECT
            array_agg(
                ROW (id, parent, attempt, lost, slot, scope, queue, lane, was, 'cancelled', NULL)::{schema}.ended
            ),
            array_agg(id ORDER BY array_position(a_ids, id))
        INTO v_taken, v_cancelled
        FROM unnest(v_taken);
        v_ready := {schema}.conclude_1(v_cancelled, v_taken, NULL, v_now);
    END IF;
    o_state := 'cancelled';
    FOREACH o_id IN ARRAY v_cancelled LOOP
        RETURN NEXT;
        v_left := array_remove(v_left, o_id);
    END LOOP;
    PERFORM 1
    FROM {schema}.jobs
    WHERE id = ANY (v_left);
    IF FOUND THEN
        RAISE serialization_failure USING MESSAGE = 'a job moved while it was looked for';
    END IF;

    IF v_ready IS NOT NULL THEN
        PERFORM {schema}.wake_1(v_now);
    END IF;
    IF a_log THEN
        PERFORM {schema}.log_1({schema}.packed_1('c', v_cancelled), v_now);
    END IF;
END
$packhorse$;
