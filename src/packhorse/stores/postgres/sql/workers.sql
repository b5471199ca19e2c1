SELECT body, seen
FROM {schema}.workers
WHERE until > {set}call_time($1)
ORDER BY name, id;
