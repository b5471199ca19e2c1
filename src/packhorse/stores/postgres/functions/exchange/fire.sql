-- Write effects that belong to no lease, each move whole or not at all. Answers the numbers of those that were refused.
-- Lock order: latches, records, new ids, lanes, stream heads.
CREATE FUNCTION {set}fire(a_moves json, a_log boolean, a_now bigint)
RETURNS SETOF integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {set}call_time(a_now);
    v_puts json := a_moves -> 'puts';
    v_move record;
    v_put {set}record_put;
    v_version bigint;
    v_refused integer[];
    v_run json;
    v_made record;
    v_created uuid[];
    v_newcomers {set}newcomer[];
    v_ready text[];
BEGIN
    PERFORM {set}lock_record_keys(array_agg(kind), array_agg(key), array_agg(false))
    FROM json_to_recordset(v_puts) AS put (kind text, key text)
    HAVING count(*) > 0;
    PERFORM 1
    FROM (SELECT DISTINCT kind, key FROM json_to_recordset(v_puts) AS put (kind text, key text)) AS put
    JOIN {schema}.records USING (kind, key)
    ORDER BY records.kind, records.key
    FOR UPDATE OF records;
    FOR v_move IN
        SELECT
            "by" AS n,
            array_agg(
                ROW (kind, key, convert_to(value, 'UTF8'), expect, coalesce(due, 0), coalesce(expires, 0))::{set}record_put
                ORDER BY n
            ) AS puts
        FROM ROWS FROM (
            json_to_recordset(v_puts) AS (
                "by" integer, kind text, key text, value text, expect bigint, due bigint, expires bigint
            )
        ) WITH ORDINALITY AS put ("by", kind, key, value, expect, due, expires, n)
        GROUP BY "by"
        ORDER BY "by"
    LOOP
        IF NOT {set}expectations_hold(v_move.puts, v_now) THEN
            v_refused := v_refused || v_move.n;
            CONTINUE;
        END IF;
        FOREACH v_put IN ARRAY v_move.puts LOOP
            v_version := {set}put_record(v_put, v_now);
            IF v_version IS NULL THEN
                RAISE serialization_failure USING MESSAGE = 'a record was put meanwhile';
            END IF;
            IF v_version > 0 THEN
                v_newcomers := v_newcomers || {set}release_waiting_on(v_put.kind, v_put.key, v_version, v_now);
            END IF;
        END LOOP;
    END LOOP;
    FOR v_run IN
        SELECT value
        FROM json_array_elements(a_moves -> 'runs')
    LOOP
        v_made := {set}create_jobs(
            v_run, (a_moves ->> 'keyed')::boolean, coalesce((a_moves ->> 'laned')::boolean, false), v_refused, v_now
        );
        v_created := v_created || v_made.o_created;
        v_newcomers := v_newcomers || v_made.o_newcomers;
        v_ready := v_ready || v_made.o_ready;
    END LOOP;
    IF v_newcomers IS NOT NULL THEN
        v_ready := v_ready || {set}make_ready(v_newcomers, v_now);
    END IF;
    IF v_ready IS NOT NULL THEN
        PERFORM {set}wake_idle_workers(v_now);
    END IF;
    IF a_log THEN
        PERFORM {set}log_changes({set}pack_event('q', v_created), v_now);
    END IF;
    IF a_moves -> 'events' IS NOT NULL THEN
        PERFORM {set}append_events(a_moves -> 'events', v_refused, v_now);
    END IF;
    RETURN QUERY
    SELECT unnest(v_refused);
END
$packhorse$;
