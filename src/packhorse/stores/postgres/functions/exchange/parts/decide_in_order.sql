-- Go through settlements in order, where order matters: write their puts, keep held steps, refuse repeats and conflicts,
-- and find those whose wait is over before it began. Locks leases by id, then latches, then records, then families.
CREATE FUNCTION {set}decide_in_order(
    a_ids uuid[],
    a_tokens uuid[],
    a_details json,
    a_puts json,
    a_now bigint,
    OUT o_refused integer[],
    OUT o_words text[],
    OUT o_held integer[],
    OUT o_satisfied integer[],
    OUT o_newcomers {set}newcomer[]
)
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_parents uuid[];
    v_settlement record;
    v_put {set}record_put;
    v_version bigint;
    v_closed uuid[] := '{}';
    v_waiting integer[];
BEGIN
    SELECT array_agg(id) FILTER (WHERE id IS NOT NULL)
    INTO v_parents
    FROM (
        SELECT running.parent AS id
        FROM unnest(a_ids, a_tokens) AS settlement (id, token)
        JOIN {schema}.running ON running.id = settlement.id AND running.token = settlement.token
        ORDER BY running.id
        FOR UPDATE OF running
    ) AS parent;
    PERFORM {set}lock_record_keys(array_agg(kind), array_agg(key), array_agg(alone))
    FROM (
        SELECT kind, key, false AS alone
        FROM json_to_recordset(a_puts) AS put (kind text, key text)
        UNION ALL
        SELECT on_kind, on_key, true
        FROM json_to_recordset(a_details) AS detail (on_kind text, on_key text)
        WHERE on_kind IS NOT NULL
    ) AS put
    HAVING count(*) > 0;
    PERFORM 1
    FROM (
        SELECT DISTINCT kind, key
        FROM json_to_recordset(a_puts) AS put (kind text, key text)
    ) AS put
    JOIN {schema}.records USING (kind, key)
    ORDER BY records.kind, records.key
    FOR UPDATE OF records;
    PERFORM {set}lock_families({set}lock_living_parents(v_parents || array_agg(a_ids[n])))
    FROM json_to_recordset(a_details) AS detail (n integer, children integer)
    WHERE children > 0
    HAVING count(*) > 0;

    FOR v_settlement IN
        SELECT
            settlement.n::integer AS n,
            settlement.id,
            detail.kind,
            detail.step,
            detail.children,
            detail.on_kind,
            detail.on_key,
            detail.after,
            grouped.puts,
            running.cancelling AND detail.kind IN ('again', 'wait') AS stops  -- its effects are dropped
        FROM unnest(a_ids, a_tokens) WITH ORDINALITY AS settlement (id, token, n)
        JOIN {schema}.running ON running.id = settlement.id AND running.token = settlement.token
        LEFT JOIN json_to_recordset(a_details) AS detail (
            n integer, kind text, step integer, children integer, on_kind text, on_key text, after bigint
        ) ON detail.n = settlement.n
        LEFT JOIN (
            SELECT
                "by",
                array_agg(
                    ROW (kind, key, convert_to(value, 'UTF8'), expect, coalesce(due, 0), coalesce(expires, 0))::{set}record_put
                    ORDER BY n
                ) AS puts
            FROM ROWS FROM (
                json_to_recordset(a_puts) AS (
                    "by" integer, kind text, key text, value text, expect bigint, due bigint, expires bigint
                )
            ) WITH ORDINALITY AS put ("by", kind, key, value, expect, due, expires, n)
            GROUP BY "by"
        ) AS grouped ON grouped."by" = settlement.n
        ORDER BY settlement.n
    LOOP
        IF v_settlement.id = ANY (v_closed)
           OR v_settlement.step <= (SELECT step FROM {schema}.running WHERE id = v_settlement.id)
        THEN
            o_refused := o_refused || v_settlement.n;
            o_words := o_words || 'repeated'::text;
            CONTINUE;
        END IF;
        IF NOT {set}expectations_hold(v_settlement.puts, a_now) THEN
            o_refused := o_refused || v_settlement.n;
            o_words := o_words || 'conflict'::text;
            CONTINUE;
        END IF;
        IF v_settlement.stops THEN
            v_closed := v_closed || v_settlement.id;
            CONTINUE;
        END IF;
        FOREACH v_put IN ARRAY coalesce(v_settlement.puts, '{}') LOOP
            v_version := {set}put_record(v_put, a_now);
            IF v_version IS NULL THEN
                RAISE serialization_failure USING MESSAGE = 'a record was put meanwhile';
            END IF;
            IF v_version > 0 THEN
                o_newcomers := o_newcomers || {set}release_waiting_on(v_put.kind, v_put.key, v_version, a_now);
            END IF;
        END LOOP;
        IF v_settlement.kind = 'held' THEN
            UPDATE {schema}.running
            SET step = v_settlement.step
            WHERE id = v_settlement.id;
            o_held := o_held || v_settlement.n;
            CONTINUE;
        END IF;
        v_closed := v_closed || v_settlement.id;
        IF v_settlement.children > 0 THEN
            PERFORM 1
            FROM {schema}.families
            WHERE id = v_settlement.id
              AND delivered >= v_settlement.children;
            IF FOUND THEN
                o_satisfied := o_satisfied || v_settlement.n;
            END IF;
        ELSIF v_settlement.on_kind IS NOT NULL THEN
            IF {set}record_newer_than(v_settlement.on_kind, v_settlement.on_key, v_settlement.after, a_now) THEN
                o_satisfied := o_satisfied || v_settlement.n;
            ELSE
                v_waiting := v_waiting || v_settlement.n;
            END IF;
        END IF;
    END LOOP;

    -- A later put of the same call may have brought what an earlier settlement waits for.
    IF v_waiting IS NOT NULL THEN
        SELECT o_satisfied || array_agg(n)
        INTO o_satisfied
        FROM json_to_recordset(a_details) AS detail (n integer, on_kind text, on_key text, after bigint)
        WHERE n = ANY (v_waiting)
          AND {set}record_newer_than(on_kind, on_key, after, a_now);
    END IF;
END
$packhorse$;
