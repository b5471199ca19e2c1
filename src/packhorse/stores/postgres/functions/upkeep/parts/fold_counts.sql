-- Fold the counts that calls left behind into one row a queue, and forget queues that hold no job any more. Those that
-- another call is folding are passed over.
CREATE FUNCTION {set}fold_counts()
RETURNS void
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_queues text[];
BEGIN
    PERFORM 1
    FROM {schema}.count_deltas
    OFFSET 100
    LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    WITH gone AS (
        DELETE FROM {schema}.count_deltas
        WHERE ctid = ANY (ARRAY(SELECT ctid FROM {schema}.count_deltas LIMIT 5000 FOR UPDATE SKIP LOCKED))
        RETURNING *
    ), sums AS (
        INSERT INTO {schema}.count_totals AS total (queue, scheduled, ready, running, waiting, done, dead, cancelled)
        SELECT
            queue, sum(scheduled), sum(ready), sum(running), sum(waiting), sum(done), sum(dead), sum(cancelled)
        FROM gone
        GROUP BY queue
        ORDER BY queue  -- everybody locks them in this order
        ON CONFLICT (queue) DO UPDATE
        SET scheduled = total.scheduled + excluded.scheduled,
            ready = total.ready + excluded.ready,
            running = total.running + excluded.running,
            waiting = total.waiting + excluded.waiting,
            done = total.done + excluded.done,
            dead = total.dead + excluded.dead,
            cancelled = total.cancelled + excluded.cancelled
        RETURNING queue
    )
    SELECT array_agg(queue)
    INTO v_queues
    FROM sums;
    DELETE FROM {schema}.count_totals
    WHERE queue = ANY (v_queues)
      AND (scheduled, ready, running, waiting, done, dead, cancelled) = (0, 0, 0, 0, 0, 0, 0);
END
$packhorse$;
