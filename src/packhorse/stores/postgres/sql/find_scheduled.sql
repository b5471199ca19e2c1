-- Soonest first: each priority has an order of its own, the laned ones another; a few of each, merged.
WITH RECURSIVE priorities AS (
    (
        SELECT priority
        FROM {schema}.due
        WHERE queue = $1
          AND (lane IS NULL OR slot)
        ORDER BY queue, priority
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT due.priority
        FROM {schema}.due
        WHERE due.queue = $1
          AND due.priority > priorities.priority
          AND (due.lane IS NULL OR due.slot)
        ORDER BY due.queue, due.priority
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
        FROM {schema}.due
        WHERE due.queue = $1
          AND due.priority = priorities.priority
          AND (due.lane IS NULL OR due.slot)
          AND (due.due, due.seq) > ($3::bigint, $4::bigint)
        ORDER BY due.queue, due.priority, due.due, due.seq
        LIMIT $2::bigint
    ) AS soon
    UNION ALL
    (
        SELECT id, due, seq
        FROM {schema}.due
        WHERE queue = $1
          AND lane IS NOT NULL
          AND NOT slot
          AND (due, seq) > ($3::bigint, $4::bigint)
        ORDER BY queue, due, seq
        LIMIT $2::bigint
    )
) AS due
ORDER BY due, seq
LIMIT $2::bigint;
