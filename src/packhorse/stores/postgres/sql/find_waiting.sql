-- Longest first.
SELECT id, seq
FROM {schema}.waiting
WHERE queue = $1
  AND seq > $3::bigint
ORDER BY queue, seq
LIMIT $2::bigint;
