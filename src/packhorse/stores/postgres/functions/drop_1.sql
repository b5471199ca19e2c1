-- Remove jobs with all that belongs to them, whatever their state, and answer which were there.
-- Locks as everywhere: leases, ends, records, then those that take_1 takes. Each place is looked at once: if a job has
-- moved meanwhile, all is begun again without locks.
CREATE FUNCTION {schema}.drop_1(a_ids uuid[], a_now bigint)
RETURNS SETOF uuid
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {schema}.moment_1(a_now);
    v_taken {schema}.ended[];
    v_over {schema}.ended[];
    v_found uuid[];
    v_ready text[];
BEGIN
    WITH from_leases AS (
        DELETE FROM {schema}.leases
        WHERE id = ANY (ARRAY(SELECT id FROM {schema}.leases WHERE id = ANY (a_ids) ORDER BY id FOR UPDATE))
        RETURNING *
    )
    SELECT array_agg(
        ROW (id, parent, attempt, lost, lane IS NOT NULL, scope, queue, lane, 'running', NULL, NULL)::{schema}.ended
    )
    INTO v_taken
    FROM from_leases;
    WITH from_ends AS (
        DELETE FROM {schema}.ends
        USING {schema}.shelves
        WHERE shelves.id = ends.shelf
          AND ends.id = ANY (ARRAY(SELECT id FROM {schema}.ends WHERE id = ANY (a_ids) ORDER BY id FOR UPDATE))
        RETURNING ends.id, shelves.queue, shelves.verdict
    )
    SELECT array_agg(ROW (id, NULL, 0, 0, false, NULL, queue, NULL, verdict, NULL, NULL)::{schema}.ended)
    INTO v_over
    FROM from_ends;
    PERFORM 1
    FROM {schema}.jobs
    WHERE id = ANY (a_ids)
    ORDER BY id
    FOR UPDATE;
    v_taken := v_taken || v_over || {schema}.take_1(a_ids);

    WITH counted AS (
        INSERT INTO {schema}.deltas (queue, scheduled, ready, running, waiting, done, dead, cancelled)
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
    )
    SELECT
        array_agg(id),
        array_agg(
            ROW (id, parent, attempt, lost, slot, scope, queue, lane, was, 'dropped', NULL)::{schema}.ended
        ) FILTER (WHERE was IN ('scheduled', 'ready', 'running', 'waiting'))
    INTO v_found, v_taken
    FROM unnest(v_taken);
    IF v_found IS NOT NULL THEN
        v_ready := {schema}.conclude_1(v_found, v_taken, NULL, v_now);
        PERFORM {schema}.forget_1(v_found);
    END IF;
    PERFORM 1
    FROM {schema}.jobs
    WHERE id = ANY (a_ids);
    IF FOUND THEN
        RAISE serialization_failure USING MESSAGE = 'a job moved while it was looked for';
    END IF;

    DELETE FROM {schema}.tombs
    WHERE id = ANY (a_ids);
    IF v_ready IS NOT NULL THEN
        PERFORM {schema}.wake_1(v_now);
    END IF;
    RETURN QUERY
    SELECT *
    FROM unnest(v_found);
END
$packhorse$;
