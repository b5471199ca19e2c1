-- Fold what calls added to the past counts into one row a queue. Rows that another call is folding are passed over.
CREATE FUNCTION {set}fold_past_counts()
RETURNS void
LANGUAGE plpgsql
AS $packhorse$
BEGIN
    PERFORM 1
    FROM {schema}.past_count_deltas
    OFFSET 100
    LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    WITH gone AS (
        DELETE FROM {schema}.past_count_deltas
        WHERE ctid = ANY (ARRAY(SELECT ctid FROM {schema}.past_count_deltas LIMIT 5000 FOR UPDATE SKIP LOCKED))
        RETURNING *
    )
    INSERT INTO {schema}.past_count_totals AS total (queue, enqueued, done, dead, cancelled)
    SELECT queue, sum(enqueued), sum(done), sum(dead), sum(cancelled)
    FROM gone
    GROUP BY queue
    ORDER BY queue  -- everybody locks them in this order
    ON CONFLICT (queue) DO UPDATE
    SET enqueued = total.enqueued + excluded.enqueued,
        done = total.done + excluded.done,
        dead = total.dead + excluded.dead,
        cancelled = total.cancelled + excluded.cancelled;
END
$packhorse$;
