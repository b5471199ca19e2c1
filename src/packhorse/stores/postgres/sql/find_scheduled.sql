-- Soonest first: each priority has an order of its own, the laned ones another; a few of each, merged.
WITH RECURSIVE priorities AS (
    (
        SELECT priority
        FROM {schema}.scheduled
        WHERE queue = $1
          AND (lane IS NULL OR slot)
        ORDER BY queue, priority
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT scheduled.priority
        FROM {schema}.scheduled
        WHERE scheduled.queue = $1
          AND scheduled.priority > priorities.priority
          AND (scheduled.lane IS NULL OR scheduled.slot)
        ORDER BY scheduled.queue, scheduled.priority
        LIMIT 1
    )
    FROM priorities
    WHERE priorities.priority IS NOT NULL
)
SELECT id, due, seq
FROM (
    SELECT soon.*
    FROM priorities
    CROSS JOIN LATERAL (
        SELECT id, due, seq
        FROM {schema}.scheduled
        WHERE scheduled.queue = $1
          AND scheduled.priority = priorities.priority
          AND (scheduled.lane IS NULL OR scheduled.slot)
          AND (scheduled.due, scheduled.seq) > ($3::bigint, $4::bigint)
        ORDER BY scheduled.queue, scheduled.priority, scheduled.due, scheduled.seq
        LIMIT $2::bigint
    ) AS soon
    UNION ALL
    (
        SELECT id, due, seq
        FROM {schema}.scheduled
        WHERE queue = $1
          AND lane IS NOT NULL
          AND NOT slot
          AND (due, seq) > ($3::bigint, $4::bigint)
        ORDER BY queue, due, seq
        LIMIT $2::bigint
    )
) AS soonest
ORDER BY due, seq
LIMIT $2::bigint;
