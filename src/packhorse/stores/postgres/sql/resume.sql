-- What was held back may be leased now.
WITH resumed AS (
    DELETE FROM {schema}.queues
    WHERE name = ANY ($1::text[])
)
SELECT {schema}.wake_1({schema}.moment_1($2));
