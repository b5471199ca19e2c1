-- All that is known of jobs, from one snapshot: the record and the one place it has. Without bodies ($2 is false) payloads
-- and results stay in their tables, and failures end before their tracebacks: a quote within a text has a backslash before it,
-- so the name of the field is found.
SELECT
    jobs.id, jobs.task, jobs.queue, CASE WHEN $2::boolean THEN jobs.payload ELSE ''::bytea END, jobs.headers, jobs.priority, jobs.enqueued_at,
    CASE
        WHEN ready.id IS NOT NULL THEN 'ready'
        WHEN scheduled.id IS NOT NULL THEN 'scheduled'
        WHEN running.id IS NOT NULL THEN 'running'
        WHEN waiting.id IS NOT NULL THEN 'waiting'
        ELSE retention_groups.verdict
    END,
    coalesce(ready.since, scheduled.due, running.claimed, waiting.since, ended.finished),
    jobs.tenant, jobs.lane, jobs.lane_limit, jobs.parent, jobs.unique_key,
    coalesce(waiting.reason, ended.reason),
    coalesce(waiting.detail, ''),
    coalesce(ready.attempt, scheduled.attempt, running.attempt, waiting.attempt, ended.attempt),
    coalesce(ready.lost, scheduled.lost, running.lost, waiting.lost, ended.lost),
    running.worker,
    running.until,
    coalesce(running.cancelling, false),
    coalesce(waiting.pending, jobs.children),
    coalesce(families.delivered, 0),
    progress.data,
    CASE WHEN $2::boolean THEN ended.result END,
    failures.errors, failures.attempts, failures.moments
FROM unnest($1::uuid[]) WITH ORDINALITY AS given (id, n)
JOIN {schema}.jobs ON jobs.id = given.id
LEFT JOIN LATERAL (
    SELECT id, since, attempt, lost
    FROM {schema}.ready
    WHERE queue = jobs.queue
      AND priority = jobs.priority
      AND since = jobs.enqueued_at
      AND seq = jobs.seq
    UNION ALL
    SELECT id, since, attempt, lost
    FROM {schema}.ready
    WHERE id = given.id
      AND NOT fresh
) AS ready ON true
LEFT JOIN {schema}.scheduled ON scheduled.id = given.id
LEFT JOIN {schema}.running ON running.id = given.id
LEFT JOIN {schema}.waiting ON waiting.id = given.id
LEFT JOIN {schema}.ended ON ended.id = given.id
LEFT JOIN {schema}.retention_groups ON retention_groups.id = ended.retention_group
LEFT JOIN {schema}.families ON families.id = given.id
LEFT JOIN {schema}.progress ON progress.id = given.id
LEFT JOIN LATERAL (
    SELECT
        array_agg(
            CASE
                WHEN $2::boolean OR position(',"traceback":'::bytea IN error) = 0 THEN error
                ELSE substring(error FROM 1 FOR position(',"traceback":'::bytea IN error) - 1) || '}'::bytea
            END
            ORDER BY seq
        ) AS errors,
        array_agg(attempt ORDER BY seq) AS attempts,
        array_agg(at ORDER BY seq) AS moments
    FROM {schema}.tries
    WHERE tries.id = given.id
      AND error IS NOT NULL
) AS failures ON true
ORDER BY given.n;
