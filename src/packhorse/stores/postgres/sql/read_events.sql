SELECT "offset", at, data, key
FROM {schema}.events
WHERE stream = $1
  AND "offset" > $2::bigint
ORDER BY stream, "offset"
LIMIT $3::bigint;
