-- Take back leases that ran out: ready again, dead once begun and lost too often, cancelled if that was asked for.
-- Folds the counts on the way.
CREATE FUNCTION {set}reap(
    a_limit integer,
    a_max_lost integer,
    a_dead_count bigint,
    a_dead_age bigint,
    a_cancelled_count bigint,
    a_cancelled_age bigint,
    a_log boolean,
    a_now bigint
)
RETURNS TABLE (o_id uuid, o_worker uuid, o_attempt integer, o_lost integer, o_state text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {set}call_time(a_now);
    v_lost {set}ended_job[];
    v_workers uuid[];
    v_newcomers {set}newcomer[];
    v_ended {set}ended_job[];
    v_ids uuid[];
    v_ready text[];
BEGIN
    PERFORM {set}fold_counts();
    WITH gone AS (
        DELETE FROM {schema}.running
        WHERE ctid = ANY (ARRAY(
            SELECT ctid
            FROM {schema}.running
            WHERE until <= v_now
            ORDER BY until, id
            LIMIT a_limit
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING
            *,
            -- the attempts of a job that was lost before hold a step when they begin
            CASE WHEN lost = 0 OR step > 0 THEN attempt ELSE attempt - 1 END AS attempts,
            CASE WHEN lost = 0 OR step > 0 THEN lost + 1 ELSE lost END AS losses,
            CASE
                WHEN cancelling THEN 'cancelled'
                WHEN step > 0 AND lost + 1 >= a_max_lost THEN 'dead'
                ELSE 'ready'
            END AS state
    ), retention AS MATERIALIZED (
        SELECT
            queue,
            state,
            CASE state
                WHEN 'dead' THEN {set}retention_group_id(queue, state, a_dead_count, a_dead_age)
                ELSE {set}retention_group_id(queue, state, a_cancelled_count, a_cancelled_age)
            END AS retention_group
        FROM (SELECT DISTINCT queue, state FROM gone WHERE state <> 'ready') AS kinds
    ), to_ended AS (
        INSERT INTO {schema}.ended (finished, id, retention_group, attempt, lost, reason)
        SELECT v_now, id, retention_group, attempts, losses, CASE state WHEN 'dead' THEN 'poison' END
        FROM gone
        JOIN retention USING (queue, state)
    ), counted AS (
        INSERT INTO {schema}.count_deltas (queue, running, dead, cancelled)
        SELECT
            queue, -count(*), count(*) FILTER (WHERE state = 'dead'), count(*) FILTER (WHERE state = 'cancelled')
        FROM gone
        GROUP BY queue
    )
    SELECT
        array_agg(
            ROW (id, parent, attempts, losses, lane IS NOT NULL, scope, queue, lane, 'running', state, NULL)::{set}ended_job
            ORDER BY until, id
        ),
        array_agg(worker ORDER BY until, id),
        array_agg(
            ROW (id, parent, v_now, attempts, losses, priority, lane_limit, true, scope, queue, lane, NULL)::{set}newcomer
            ORDER BY until, id
        ) FILTER (WHERE state = 'ready')
    INTO v_lost, v_workers, v_newcomers
    FROM gone;
    IF v_lost IS NULL THEN
        RETURN;
    END IF;

    SELECT array_agg(taken), array_agg(id)
    INTO v_ended, v_ids
    FROM unnest(v_lost) AS taken
    WHERE verdict <> 'ready';
    v_ready := {set}follow_up_ended(v_ids, v_ended, v_newcomers, v_now);
    IF v_ready IS NOT NULL THEN
        PERFORM {set}wake_idle_workers(v_now);
    END IF;
    IF a_log THEN
        PERFORM {set}log_changes(
            {set}pack_event('l', ARRAY(SELECT id FROM unnest(v_lost)))
            || {set}pack_event('k', ARRAY(SELECT id FROM unnest(v_lost) WHERE verdict = 'dead'))
            || {set}pack_event('c', ARRAY(SELECT id FROM unnest(v_lost) WHERE verdict = 'cancelled')),
            v_now
        );
    END IF;
    RETURN QUERY
    SELECT lost.id, v_workers[lost.n], lost.attempt, lost.lost, lost.verdict
    FROM unnest(v_lost) WITH ORDINALITY AS lost (
        id, parent, attempt, lost, slot, scope, queue, lane, was, verdict, result, n
    )
    ORDER BY lost.n;
END
$packhorse$;
