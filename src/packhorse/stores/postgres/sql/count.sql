SELECT
    queue, sum(scheduled)::bigint, sum(ready)::bigint, sum(running)::bigint, sum(waiting)::bigint, sum(done)::bigint,
    sum(dead)::bigint, sum(cancelled)::bigint
FROM {schema}.deltas
GROUP BY queue
ORDER BY queue;
