-- End jobs that are not running, mark running ones, and answer where each stands now; unknown ones are left out.
-- Leases are locked before anything else, as everywhere, and each place is looked at once: if a job has moved meanwhile,
-- all is begun again without locks.
CREATE FUNCTION {set}cancel(a_ids uuid[], a_keep_count bigint, a_keep_age bigint, a_log boolean, a_now bigint)
RETURNS TABLE (o_id uuid, o_state text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {set}call_time(a_now);
    v_left uuid[] := a_ids;
    v_taken {set}ended_job[];
    v_cancelled uuid[] := '{}';
    v_ready text[];
BEGIN
    FOR o_id, o_state IN
        UPDATE {schema}.running
        SET cancelling = true
        WHERE id = ANY (ARRAY(SELECT id FROM {schema}.running WHERE id = ANY (v_left) ORDER BY id FOR UPDATE))
        RETURNING id, 'running'
    LOOP
        RETURN NEXT;
        v_left := array_remove(v_left, o_id);
    END LOOP;
    v_taken := {set}remove_from_places(v_left);
    FOR o_id, o_state IN
        SELECT ended.id, retention_groups.verdict
        FROM {schema}.ended
        JOIN {schema}.retention_groups ON retention_groups.id = ended.retention_group
        WHERE ended.id = ANY (v_left)
    LOOP
        RETURN NEXT;
        v_left := array_remove(v_left, o_id);
    END LOOP;

    IF v_taken IS NOT NULL THEN
        WITH retention AS MATERIALIZED (
            SELECT queue, {set}retention_group_id(queue, 'cancelled', a_keep_count, a_keep_age) AS retention_group
            FROM (SELECT DISTINCT queue FROM unnest(v_taken)) AS queues
        ), to_ended AS (
            INSERT INTO {schema}.ended (finished, id, retention_group, attempt, lost)
            SELECT v_now, id, retention_group, attempt, lost
            FROM unnest(v_taken)
            JOIN retention USING (queue)
        ), counted AS (
            INSERT INTO {schema}.count_deltas (queue, scheduled, ready, waiting, cancelled)
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
                ROW (id, parent, attempt, lost, slot, scope, queue, lane, was, 'cancelled', NULL)::{set}ended_job
            ),
            array_agg(id ORDER BY array_position(a_ids, id))
        INTO v_taken, v_cancelled
        FROM unnest(v_taken);
        v_ready := {set}follow_up_ended(v_cancelled, v_taken, NULL, v_now);
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
        PERFORM {set}wake_idle_workers(v_now);
    END IF;
    IF a_log THEN
        PERFORM {set}log_changes({set}pack_event('c', v_cancelled), v_now);
    END IF;
END
$packhorse$;
