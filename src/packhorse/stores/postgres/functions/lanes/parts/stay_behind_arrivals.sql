-- Those of these jobs that may be let in now. A job that must ask a lane in which others have come due, or have arrived, and
-- were not let in yet, stands behind those: it is put into due and comes due after them, in the queues answered.
CREATE FUNCTION {set}stay_behind_arrivals(
    a_newcomers {set}newcomer[],
    a_now bigint,
    OUT o_newcomers {set}newcomer[],
    OUT o_queues text[]
)
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_late uuid[];
BEGIN
    o_newcomers := a_newcomers;
    SELECT array_agg(id)
    INTO v_late
    FROM unnest(a_newcomers) AS job
    WHERE job.lane IS NOT NULL
      AND NOT job.slot
      AND (
          EXISTS (
              SELECT 1
              FROM {schema}.scheduled AS before
              WHERE before.queue = job.queue
                AND before.lane = job.lane
                AND before.lane IS NOT NULL
                AND NOT before.slot
                AND before.due <= a_now
          )
          OR EXISTS (
              SELECT 1
              FROM {schema}.scheduled AS before
              WHERE before.queue = job.queue
                AND before.lane = job.lane
                AND before.arrived
          )
      );
    IF v_late IS NULL THEN
        RETURN;
    END IF;

    WITH late AS MATERIALIZED (
        SELECT *
        FROM unnest(a_newcomers) WITH ORDINALITY AS job (
            id, parent, since, attempt, lost, priority, lane_limit, slot, scope, queue, lane, seq, n
        )
        WHERE id = ANY (v_late)
    ), to_scheduled AS (
        INSERT INTO {schema}.scheduled (due, id, parent, attempt, lost, priority, lane_limit, slot, arrived, scope, queue, lane)
        SELECT {set}arrival_due_at(queue, lane, a_now), id, parent, attempt, lost, priority, lane_limit, false, true, scope, queue, lane
        FROM late
        ORDER BY n
    ), counted AS (
        INSERT INTO {schema}.count_deltas (queue, scheduled)
        SELECT queue, count(*)
        FROM late
        GROUP BY queue
    )
    SELECT array_agg(DISTINCT queue)
    INTO o_queues
    FROM late;
    o_newcomers := NULL;
    FOR v_at IN 1..cardinality(a_newcomers) LOOP
        IF (a_newcomers[v_at]).id <> ALL (v_late) THEN
            o_newcomers := o_newcomers || a_newcomers[v_at];
        END IF;
    END LOOP;
END
$packhorse$;
