-- Write records one by one, in order, and let the jobs go that wait for them. Answers each new version, or null.
CREATE FUNCTION {set}put_records(a_puts json, a_now bigint)
RETURNS SETOF bigint
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {set}call_time(a_now);
    v_put {set}record_put;
    v_version bigint;
    v_newcomers {set}newcomer[];
BEGIN
    PERFORM {set}lock_record_keys(array_agg(kind), array_agg(key), array_agg(false))
    FROM json_to_recordset(a_puts) AS put (kind text, key text);
    PERFORM 1
    FROM (SELECT DISTINCT kind, key FROM json_to_recordset(a_puts) AS put (kind text, key text)) AS put
    JOIN {schema}.records USING (kind, key)
    ORDER BY records.kind, records.key
    FOR UPDATE OF records;
    FOR v_put IN
        SELECT kind, key, convert_to(value, 'UTF8'), expect, coalesce(due, 0), coalesce(expires, 0)
        FROM json_to_recordset(a_puts) AS put (
            kind text, key text, value text, expect bigint, due bigint, expires bigint
        )
    LOOP
        v_version := {set}put_record(v_put, v_now);
        IF v_version > 0 THEN
            v_newcomers := v_newcomers || {set}release_waiting_on(v_put.kind, v_put.key, v_version, v_now);
        END IF;
        RETURN NEXT v_version;
    END LOOP;
    IF v_newcomers IS NOT NULL THEN
        IF {set}make_ready(v_newcomers, v_now) IS NOT NULL THEN
            PERFORM {set}wake_idle_workers(v_now);
        END IF;
    END IF;
END
$packhorse$;
