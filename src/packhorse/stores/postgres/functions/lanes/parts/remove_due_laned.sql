-- Jobs of these queues that have come due and must ask their lane first; at most 500 of each queue.
CREATE FUNCTION {set}remove_due_laned(a_queues text[], a_now bigint)
RETURNS {set}newcomer[]
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_queue text;
    v_come {set}newcomer[];
    v_newcomers {set}newcomer[];
BEGIN
    FOREACH v_queue IN ARRAY a_queues LOOP
        -- Order and limit pin the index: a mere condition may be planned as a scan of all that is scheduled.
        CONTINUE WHEN coalesce(
            (
                SELECT due
                FROM {schema}.scheduled
                WHERE queue = v_queue
                  AND lane IS NOT NULL
                  AND NOT slot
                ORDER BY queue, due, seq
                LIMIT 1
            ) > a_now,
            true
        );
        WITH gone AS (
            DELETE FROM {schema}.scheduled
            WHERE ctid = ANY (ARRAY(
                SELECT ctid
                FROM {schema}.scheduled
                WHERE queue = v_queue
                  AND lane IS NOT NULL
                  AND NOT slot
                  AND due <= a_now
                ORDER BY queue, due, seq
                LIMIT 500
                FOR UPDATE SKIP LOCKED
            ))
            RETURNING *
        ), counted AS (
            INSERT INTO {schema}.count_deltas (queue, scheduled)
            SELECT queue, -count(*)
            FROM gone
            GROUP BY queue
        )
        SELECT array_agg(
            ROW (id, parent, due, attempt, lost, priority, lane_limit, false, scope, queue, lane, seq)::{set}newcomer
            ORDER BY due, seq
        )
        INTO v_come
        FROM gone;
        v_newcomers := v_newcomers || v_come;
    END LOOP;
    RETURN v_newcomers;
END
$packhorse$;
