SELECT "offset", at, data, NULL::text
FROM {schema}.lifecycle
WHERE "offset" > $1::bigint
ORDER BY "offset"
LIMIT $2::bigint;
