-- Remove jobs with all that belongs to them, whatever their state, and answer which were there.
-- Locks as everywhere: leases, ends, records, then those that remove_from_places takes. Each place is looked at once: if a job has
-- moved meanwhile, all is begun again without locks.
CREATE FUNCTION {set}drop(a_ids uuid[], a_now bigint)
RETURNS SETOF uuid
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {set}call_time(a_now);
    v_taken {set}ended_job[];
    v_over {set}ended_job[];
    v_found uuid[];
    v_ready text[];
BEGIN
    WITH from_running AS (
        DELETE FROM {schema}.running
        WHERE id = ANY (ARRAY(SELECT id FROM {schema}.running WHERE id = ANY (a_ids) ORDER BY id FOR UPDATE))
        RETURNING *
    )
    SELECT array_agg(
        ROW (id, parent, attempt, lost, lane IS NOT NULL, scope, queue, lane, 'running', NULL, NULL)::{set}ended_job
    )
    INTO v_taken
    FROM from_running;
    WITH from_ended AS (
        DELETE FROM {schema}.ended
        USING {schema}.retention_groups
        WHERE retention_groups.id = ended.retention_group
          AND ended.id = ANY (ARRAY(SELECT id FROM {schema}.ended WHERE id = ANY (a_ids) ORDER BY id FOR UPDATE))
        RETURNING ended.id, retention_groups.queue, retention_groups.verdict
    )
    SELECT array_agg(ROW (id, NULL, 0, 0, false, NULL, queue, NULL, verdict, NULL, NULL)::{set}ended_job)
    INTO v_over
    FROM from_ended;
    PERFORM 1
    FROM {schema}.jobs
    WHERE id = ANY (a_ids)
    ORDER BY id
    FOR UPDATE;
    v_taken := v_taken || v_over || {set}remove_from_places(a_ids);

    WITH counted AS (
        INSERT INTO {schema}.count_deltas (queue, scheduled, ready, running, waiting, done, dead, cancelled)
        SELECT
            queue,
            -count(*) FILTER (WHERE was = 'scheduled'),
            -count(*) FILTER (WHERE was = 'ready'),
            -count(*) FILTER (WHERE was = 'running'),
            -count(*) FILTER (WHERE was = 'waiting'),
            -count(*) FILTER (WHERE was = 'done'),
            -count(*) FILTER (WHERE was = 'dead'),
            -count(*) FILTER (WHERE was = 'cancelled')
        FROM unnest(v_taken)
        GROUP BY queue
    ), past AS (
        INSERT INTO {schema}.past_count_deltas (queue, enqueued, done, dead, cancelled)
        SELECT
            queue,
            count(*),
            count(*) FILTER (WHERE was = 'done'),
            count(*) FILTER (WHERE was = 'dead'),
            count(*) FILTER (WHERE was = 'cancelled')
        FROM unnest(v_taken)
        GROUP BY queue
    )
    SELECT
        array_agg(id),
        array_agg(
            ROW (id, parent, attempt, lost, slot, scope, queue, lane, was, 'dropped', NULL)::{set}ended_job
        ) FILTER (WHERE was IN ('scheduled', 'ready', 'running', 'waiting'))
    INTO v_found, v_taken
    FROM unnest(v_taken);
    IF v_found IS NOT NULL THEN
        v_ready := {set}follow_up_ended(v_found, v_taken, NULL, v_now);
        PERFORM {set}forget_jobs(v_found);
    END IF;
    PERFORM 1
    FROM {schema}.jobs
    WHERE id = ANY (a_ids);
    IF FOUND THEN
        RAISE serialization_failure USING MESSAGE = 'a job moved while it was looked for';
    END IF;

    DELETE FROM {schema}.tombstones
    WHERE id = ANY (a_ids);
    IF v_ready IS NOT NULL THEN
        PERFORM {set}wake_idle_workers(v_now);
    END IF;
    RETURN QUERY
    SELECT *
    FROM unnest(v_found);
END
$packhorse$;
