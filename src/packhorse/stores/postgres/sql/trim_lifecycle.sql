WITH gone AS (
    DELETE FROM {schema}.lifecycle
    WHERE seq = ANY (ARRAY(
        SELECT seq
        FROM {schema}.lifecycle
        WHERE "offset" < least($1::bigint, (SELECT last FROM {schema}.stream_heads WHERE stream = 'packhorse.jobs'))
        ORDER BY "offset"
        LIMIT $2::bigint
        FOR UPDATE
    ))
    RETURNING 1
)
SELECT count(*)
FROM gone;
