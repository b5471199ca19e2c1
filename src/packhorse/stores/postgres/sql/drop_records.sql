WITH gone AS (
    DELETE FROM {schema}.records
    WHERE kind = $1
      AND key = ANY (ARRAY(
          SELECT key FROM {schema}.records WHERE kind = $1 AND key = ANY ($2::text[]) ORDER BY key FOR UPDATE
      ))
    RETURNING expires
)
SELECT count(*)
FROM gone
WHERE NOT expires BETWEEN 1 AND {set}call_time($3);
