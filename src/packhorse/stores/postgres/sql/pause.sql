INSERT INTO {schema}.queues AS queue (name, paused)
SELECT DISTINCT name, true
FROM unnest($1::text[]) AS asked (name)
ORDER BY name
ON CONFLICT (name) DO UPDATE
SET paused = true
WHERE NOT queue.paused;
