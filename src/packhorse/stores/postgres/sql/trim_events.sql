WITH gone AS (
    DELETE FROM {schema}.events
    WHERE stream = $1
      AND "offset" = ANY (ARRAY(
          SELECT "offset"
          FROM {schema}.events
          WHERE stream = $1
            AND "offset" < $2::bigint
          ORDER BY stream, "offset"
          LIMIT $3::bigint
          FOR UPDATE
      ))
    RETURNING 1
)
SELECT count(*)
FROM gone;
