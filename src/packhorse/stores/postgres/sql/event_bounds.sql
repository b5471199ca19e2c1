SELECT
    (SELECT min("offset") FROM {schema}.events WHERE stream = $1),
    coalesce((SELECT last FROM {schema}.stream_heads WHERE stream = $1), 0);
