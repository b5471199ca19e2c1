SELECT CASE
    WHEN wanted.stream = 'packhorse.jobs' AND EXISTS (SELECT FROM {schema}.lifecycle WHERE "offset" IS NULL)
    THEN NULL
    ELSE coalesce((SELECT last FROM {schema}.stream_heads AS head WHERE head.stream = wanted.stream), 0)
END
FROM unnest($1::text[]) WITH ORDINALITY AS wanted (stream, n)
ORDER BY n;
