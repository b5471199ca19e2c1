SELECT queue, scheduled, ready, running, waiting, done, dead, cancelled
FROM {schema}.counts
ORDER BY queue;
