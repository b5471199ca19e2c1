-- Whether the expectations of all puts of a settlement hold, each seeing those before it.
CREATE FUNCTION {set}expectations_hold(a_puts {set}record_put[], a_now bigint)
RETURNS boolean
LANGUAGE plpgsql
AS $packhorse$
BEGIN
    RETURN (
        SELECT bool_and(
            CASE
                WHEN expect IS NULL THEN true
                WHEN before IS NOT NULL THEN expect = 0 AND before = 'dropped'
                ELSE expect = coalesce(
                    (
                        SELECT version
                        FROM {schema}.records
                        WHERE records.kind = put.kind
                          AND records.key = put.key
                          AND NOT records.expires BETWEEN 1 AND a_now
                    ),
                    0
                )
            END
        )
        FROM (
            SELECT
                kind,
                key,
                expect,
                lag(CASE WHEN value IS NULL THEN 'dropped' ELSE 'put' END) OVER (
                    PARTITION BY kind, key
                    ORDER BY n
                ) AS before
            FROM unnest(a_puts) WITH ORDINALITY AS put (kind, key, value, expect, due, expires, n)
        ) AS put
    );
END
$packhorse$;
