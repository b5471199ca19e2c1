SELECT body, seen
FROM {schema}.workers
WHERE until > {schema}.moment_1($1)
ORDER BY name, id;
