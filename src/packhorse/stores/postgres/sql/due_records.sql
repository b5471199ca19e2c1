SELECT kind, key, value, version, due, expires
FROM {schema}.records
WHERE kind = $1
  AND due > 0
  AND due <= {set}call_time($3)
  AND NOT expires BETWEEN 1 AND {set}call_time($3)
ORDER BY kind, due, key
LIMIT $2::bigint;
