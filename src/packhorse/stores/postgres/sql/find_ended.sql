-- Newest first, of one queue or of all: a few of each retention group, merged. Of many groups only those whose newest are the
-- newest of all can have some that are wanted.
WITH groups AS MATERIALIZED (
    SELECT retention_groups.id
    FROM {schema}.retention_groups
    CROSS JOIN LATERAL (
        SELECT ended.id, ended.finished
        FROM {schema}.ended
        WHERE ended.retention_group = retention_groups.id
          AND (ended.finished, ended.id) < ($3::bigint, $4::uuid)
        ORDER BY ended.retention_group DESC, ended.finished DESC, ended.id DESC
        LIMIT 1
    ) AS newest
    WHERE ($1::text IS NULL OR retention_groups.queue = $1::text)
      AND retention_groups.verdict = $5::text
    ORDER BY newest.finished DESC, newest.id DESC
    LIMIT $2::bigint
)
SELECT newest.id, newest.finished, newest.id
FROM groups
CROSS JOIN LATERAL (
    SELECT ended.id, ended.finished
    FROM {schema}.ended
    WHERE ended.retention_group = groups.id
      AND (ended.finished, ended.id) < ($3::bigint, $4::uuid)
    ORDER BY ended.retention_group DESC, ended.finished DESC, ended.id DESC
    LIMIT $2::bigint
) AS newest
ORDER BY newest.finished DESC, newest.id DESC
LIMIT $2::bigint;
