-- Extend leases. A row that another call holds just now is busy, not lost: it is passed over and may be renewed later.
CREATE FUNCTION {schema}.renew_1(a_ids uuid[], a_tokens uuid[], a_duration bigint, a_now bigint)
RETURNS TABLE (o_n integer, o_word text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_until bigint := {schema}.moment_1(a_now) + a_duration;
BEGIN
    RETURN QUERY
    WITH free AS MATERIALIZED (
        SELECT leases.id
        FROM unnest(a_ids, a_tokens) AS given (id, token)
        JOIN {schema}.leases ON leases.id = given.id AND leases.token = given.token
        FOR UPDATE OF leases SKIP LOCKED
    ), kept AS (
        UPDATE {schema}.leases
        SET until = v_until
        FROM (SELECT DISTINCT id FROM free) AS free
        WHERE leases.id = free.id
        RETURNING leases.id, leases.cancelling
    )
    SELECT
        given.n::integer,
        CASE
            WHEN held.id IS NULL THEN 'lost'
            WHEN kept.id IS NULL THEN 'busy'
            WHEN kept.cancelling THEN 'cancelling'
            ELSE 'kept'
        END
    FROM unnest(a_ids, a_tokens) WITH ORDINALITY AS given (id, token, n)
    LEFT JOIN {schema}.leases AS held ON held.id = given.id AND held.token = given.token
    LEFT JOIN kept ON kept.id = held.id
    ORDER BY given.n;
END
$packhorse$;
