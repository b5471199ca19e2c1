-- Newest first: a few of each shelf, merged.
SELECT newest.id, newest.finished, newest.id
FROM {schema}.shelves
CROSS JOIN LATERAL (
    SELECT ends.id, ends.finished
    FROM {schema}.ends
    WHERE ends.shelf = shelves.id
      AND (ends.finished, ends.id) < ($3::bigint, $4::uuid)
    ORDER BY ends.shelf DESC, ends.finished DESC, ends.id DESC
    LIMIT $2::bigint
) AS newest
WHERE shelves.queue = $1
  AND shelves.verdict = $5::text
ORDER BY newest.finished DESC, newest.id DESC
LIMIT $2::bigint;
