-- Every queue that has or had jobs or is paused.
SELECT
    queue,
    coalesce(paused, false),
    coalesce(scheduled, 0), coalesce(ready, 0), coalesce(running, 0), coalesce(waiting, 0),
    coalesce(done, 0), coalesce(dead, 0), coalesce(cancelled, 0),
    {schema}.oldest_1(queue),
    {schema}.earliest_1(queue, -1)
FROM (
    SELECT
        queue, sum(scheduled)::bigint AS scheduled, sum(ready)::bigint AS ready, sum(running)::bigint AS running,
        sum(waiting)::bigint AS waiting, sum(done)::bigint AS done, sum(dead)::bigint AS dead,
        sum(cancelled)::bigint AS cancelled
    FROM {schema}.deltas
    GROUP BY queue
) AS counts
FULL JOIN (SELECT name AS queue, paused FROM {schema}.queues) AS queues USING (queue)
ORDER BY queue;
