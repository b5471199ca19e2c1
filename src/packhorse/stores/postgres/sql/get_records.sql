SELECT kind, key, value, version, due, expires
FROM {schema}.records
WHERE kind = $1
  AND key = ANY ($2::text[])
  AND NOT expires BETWEEN 1 AND {set}call_time($3);
