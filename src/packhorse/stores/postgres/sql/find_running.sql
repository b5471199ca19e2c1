-- Running jobs are few and in no order of their own.
SELECT id, id
FROM {schema}.running
WHERE queue = $1
  AND id > $3::uuid
ORDER BY id
LIMIT $2::bigint;
