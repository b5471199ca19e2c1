-- Those of these jobs that have ended or are not there, and those that are not watched for another half of the time.
-- A job that is watched is there, for whoever drops it takes its watch away.
SELECT job.id, ended.id IS NOT NULL OR NOT EXISTS (SELECT 1 FROM {schema}.jobs WHERE jobs.id = job.id)
FROM unnest($1::uuid[]) AS job (id)
CROSS JOIN (SELECT {set}call_time($3) + $2::bigint / 2 AS until) AS half
LEFT JOIN {schema}.ended ON ended.id = job.id
LEFT JOIN {schema}.watched_jobs ON watched_jobs.id = job.id
WHERE ended.id IS NOT NULL
   OR watched_jobs.until IS NULL
   OR watched_jobs.until < half.until;
