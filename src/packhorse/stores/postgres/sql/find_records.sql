SELECT kind, key, value, version, due, expires
FROM {schema}.records
WHERE kind = $1
  AND key >= $2::text
  AND ($3::text IS NULL OR key < $3::text)
  AND key > $4::text
  AND NOT expires BETWEEN 1 AND {schema}.moment_1($6)
ORDER BY kind, key
LIMIT $5::bigint;
