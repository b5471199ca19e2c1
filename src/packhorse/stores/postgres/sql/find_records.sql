SELECT kind, key, value, version, due, expires
FROM {schema}.records
WHERE kind = $1
  AND key >= $2::text
  AND key < $3::text
  AND NOT expires BETWEEN 1 AND {set}call_time($5)
ORDER BY kind, key
LIMIT $4::bigint;
