-- Write records one by one, in order, and let the jobs go that wait for them. Answers each new version, or null.
CREATE FUNCTION {schema}.puts_1(a_puts json, a_now bigint)
RETURNS SETOF bigint
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {schema}.moment_1(a_now);
    v_wish {schema}.wish;
    v_version bigint;
    v_newcomers {schema}.newcomer[];
BEGIN
    PERFORM {schema}.latch_1(array_agg(kind), array_agg(key), array_agg(false))
    FROM json_to_recordset(a_puts) AS wish (kind text, key text);
    PERFORM 1
    FROM (SELECT DISTINCT kind, key FROM json_to_recordset(a_puts) AS wish (kind text, key text)) AS wish
    JOIN {schema}.records USING (kind, key)
    ORDER BY records.kind, records.key
    FOR UPDATE OF records;
    FOR v_wish IN
        SELECT kind, key, convert_to(value, 'UTF8'), expect, coalesce(due, 0), coalesce(expires, 0)
        FROM json_to_recordset(a_puts) AS wish (
            kind text, key text, value text, expect bigint, due bigint, expires bigint
        )
    LOOP
        v_version := {schema}.put_1(v_wish, v_now);
        IF v_version > 0 THEN
            v_newcomers := v_newcomers || {schema}.woken_1(v_wish.kind, v_wish.key, v_version, v_now);
        END IF;
        RETURN NEXT v_version;
    END LOOP;
    IF v_newcomers IS NOT NULL THEN
        IF {schema}.ask_1(v_newcomers, v_now) IS NOT NULL THEN
            PERFORM {schema}.wake_1(v_now);
        END IF;
    END IF;
END
$packhorse$;
