-- Every queue that holds jobs or is paused.
SELECT
    queue,
    coalesce(paused, false),
    coalesce(scheduled, 0), coalesce(ready, 0), coalesce(running, 0), coalesce(waiting, 0),
    coalesce(done, 0), coalesce(dead, 0), coalesce(cancelled, 0),
    {schema}.oldest_1(queue),
    {schema}.earliest_1(queue, -1)
FROM {schema}.counts
FULL JOIN (SELECT name AS queue, paused FROM {schema}.queues WHERE paused) AS queues USING (queue)
ORDER BY queue;
