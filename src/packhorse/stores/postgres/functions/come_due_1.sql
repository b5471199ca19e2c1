-- Jobs of these queues that have come due and must ask their lane first; at most 500 of each queue.
CREATE FUNCTION {schema}.come_due_1(a_queues text[], a_now bigint)
RETURNS {schema}.newcomer[]
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_queue text;
    v_come {schema}.newcomer[];
    v_newcomers {schema}.newcomer[];
BEGIN
    FOREACH v_queue IN ARRAY a_queues LOOP
        -- Order and limit pin the index: a mere condition may be planned as a scan of all that is scheduled.
        CONTINUE WHEN coalesce(
            (
                SELECT due
                FROM {schema}.due
                WHERE queue = v_queue
                  AND lane IS NOT NULL
                  AND NOT slot
                ORDER BY queue, due, seq
                LIMIT 1
            ) > a_now,
            true
        );
        WITH gone AS (
            DELETE FROM {schema}.due
            WHERE ctid = ANY (ARRAY(
                SELECT ctid
                FROM {schema}.due
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
            INSERT INTO {schema}.deltas (queue, scheduled)
            SELECT queue, -count(*)
            FROM gone
            GROUP BY queue
        )
        SELECT array_agg(
            ROW (id, parent, due, attempt, lost, priority, lane_limit, false, scope, queue, lane, seq)::{schema}.newcomer
            ORDER BY due, seq
        )
        INTO v_come
        FROM gone;
        v_newcomers := v_newcomers || v_come;
    END LOOP;
    RETURN v_newcomers;
END
$packhorse$;
