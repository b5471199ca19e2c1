-- Extend leases. A row that another call holds just now is busy, not lost: it is passed over and may be renewed later.
CREATE FUNCTION {set}renew(a_ids uuid[], a_tokens uuid[], a_duration bigint, a_now bigint)
RETURNS SETOF text
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_until bigint := {set}call_time(a_now) + a_duration;
BEGIN
    RETURN QUERY
    WITH free AS MATERIALIZED (
        SELECT running.id
        FROM unnest(a_ids, a_tokens) AS given (id, token)
        JOIN {schema}.running ON running.id = given.id AND running.token = given.token
        FOR UPDATE OF running SKIP LOCKED
    ), kept AS (
        UPDATE {schema}.running
        SET until = v_until
        FROM (SELECT DISTINCT id FROM free) AS free
        WHERE running.id = free.id
        RETURNING running.id, running.cancelling
    )
    SELECT
        CASE
            WHEN held.id IS NULL THEN 'lost'
            WHEN kept.id IS NULL THEN 'busy'
            WHEN kept.cancelling THEN 'cancelling'
            ELSE 'kept'
        END
    FROM unnest(a_ids, a_tokens) WITH ORDINALITY AS given (id, token, n)
    LEFT JOIN {schema}.running AS held ON held.id = given.id AND held.token = given.token
    LEFT JOIN kept ON kept.id = held.id
    ORDER BY given.n;
END
$packhorse$;
