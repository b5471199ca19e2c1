-- What was held back may be leased now.
WITH resumed AS (
    DELETE FROM {schema}.queues
    WHERE name = ANY ($1::text[])
)
SELECT {set}wake_idle_workers({set}call_time($2));
