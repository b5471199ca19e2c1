-- Best first.
SELECT id, priority, since, seq
FROM {schema}.ready
WHERE queue = $1
  AND (priority, since, seq) > ($3::bigint, $4::bigint, $5::bigint)
ORDER BY queue, priority, since, seq
LIMIT $2::bigint;
