-- All that is known of jobs, from one snapshot: the record and the one place it has.
SELECT
    jobs.id, jobs.task, jobs.queue, jobs.payload, jobs.headers, jobs.priority, jobs.born,
    CASE
        WHEN ready.id IS NOT NULL THEN 'ready'
        WHEN due.id IS NOT NULL THEN 'scheduled'
        WHEN leases.id IS NOT NULL THEN 'running'
        WHEN waits.id IS NOT NULL THEN 'waiting'
        ELSE shelves.verdict
    END,
    coalesce(ready.since, due.due, leases.claimed, waits.since, ends.finished),
    jobs.tenant, jobs.lane, jobs.lane_limit, jobs.parent, jobs.unique_key,
    coalesce(waits.reason, ends.reason),
    coalesce(waits.detail, ''),
    coalesce(ready.attempt, due.attempt, leases.attempt, waits.attempt, ends.attempt),
    coalesce(ready.lost, due.lost, leases.lost, waits.lost, ends.lost),
    leases.worker,
    leases.until,
    coalesce(leases.cancelling, false),
    coalesce(waits.pending, jobs.children),
    coalesce(families.delivered, 0),
    progress.data,
    ends.result,
    failures.errors, failures.attempts, failures.moments
FROM unnest($1::uuid[]) WITH ORDINALITY AS given (id, n)
JOIN {schema}.jobs ON jobs.id = given.id
LEFT JOIN LATERAL (
    SELECT id, since, attempt, lost
    FROM {schema}.ready
    WHERE queue = jobs.queue
      AND priority = jobs.priority
      AND since = jobs.born
      AND seq = jobs.seq
    UNION ALL
    SELECT id, since, attempt, lost
    FROM {schema}.ready
    WHERE id = given.id
      AND NOT fresh
) AS ready ON true
LEFT JOIN {schema}.due ON due.id = given.id
LEFT JOIN {schema}.leases ON leases.id = given.id
LEFT JOIN {schema}.waits ON waits.id = given.id
LEFT JOIN {schema}.ends ON ends.id = given.id
LEFT JOIN {schema}.shelves ON shelves.id = ends.shelf
LEFT JOIN {schema}.families ON families.id = given.id
LEFT JOIN {schema}.progress ON progress.id = given.id
LEFT JOIN LATERAL (
    SELECT
        array_agg(error ORDER BY seq) AS errors,
        array_agg(attempt ORDER BY seq) AS attempts,
        array_agg(at ORDER BY seq) AS moments
    FROM {schema}.tries
    WHERE tries.id = given.id
      AND error IS NOT NULL
) AS failures ON true
ORDER BY given.n;
