SELECT
    (SELECT min("offset") FROM {schema}.lifecycle WHERE "offset" IS NOT NULL),
    coalesce((SELECT last FROM {schema}.stream_heads WHERE stream = 'packhorse.jobs'), 0);
