-- Every queue that holds jobs or is paused, with what it has counted in the past.
SELECT
    queue,
    coalesce(paused, false),
    coalesce(scheduled, 0), coalesce(ready, 0), coalesce(running, 0), coalesce(waiting, 0),
    coalesce(counts.done, 0), coalesce(counts.dead, 0), coalesce(counts.cancelled, 0),
    {set}oldest_ready(queue),
    {set}earliest_due(queue, -1),
    coalesce(past.enqueued, 0) + coalesce(recent.enqueued, 0),
    coalesce(past.done, 0) + coalesce(recent.done, 0),
    coalesce(past.dead, 0) + coalesce(recent.dead, 0),
    coalesce(past.cancelled, 0) + coalesce(recent.cancelled, 0)
FROM {schema}.counts
FULL JOIN (SELECT name AS queue, paused FROM {schema}.queues WHERE paused) AS queues USING (queue)
LEFT JOIN {schema}.past_count_totals AS past USING (queue)
LEFT JOIN (
    SELECT
        queue, sum(enqueued)::bigint AS enqueued, sum(done)::bigint AS done, sum(dead)::bigint AS dead,
        sum(cancelled)::bigint AS cancelled
    FROM {schema}.past_count_deltas
    GROUP BY queue
) AS recent USING (queue)
ORDER BY queue;
