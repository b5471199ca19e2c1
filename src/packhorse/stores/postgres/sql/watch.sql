INSERT INTO {schema}.watched_jobs AS watch (id, until)
SELECT DISTINCT id, {set}call_time($3) + $2::bigint
FROM unnest($1::uuid[]) AS job (id)
ORDER BY id
ON CONFLICT (id) DO UPDATE
SET until = greatest(watch.until, excluded.until);
