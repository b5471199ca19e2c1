-- Answer an ask: what is left of the same leases if it was answered before, else each queue's share, then what is left
-- over in the order asked. Of the same leases, those that no longer fit in the bytes asked for are given back: answers
-- the queues in which that made jobs ready, and the packed changes. Keeps the last ask that got something or was made
-- again, and who came away with nothing.
CREATE FUNCTION {set}claim(
    a_worker uuid,
    a_token uuid,
    a_lease bigint,
    a_number bigint,
    a_again boolean,
    a_queues text[],
    a_counts integer[],
    a_mosts integer[],
    a_bytes bigint,
    a_bookmarks json,
    a_keep_count bigint,
    a_keep_age bigint,
    a_failures integer,
    a_now bigint,
    OUT o_leased uuid[],
    OUT o_claimed uuid[],
    OUT o_more boolean,
    OUT o_next_due bigint,
    OUT o_fence bigint,
    OUT o_ready text[],
    OUT o_changes bytea
)
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_paused text[] := ARRAY(SELECT name FROM {schema}.queues WHERE name = ANY (a_queues) AND paused);
    v_last record;
    v_total integer := 0;
    v_left integer;
    v_want integer;
    v_got integer[] := '{}';
    v_dry boolean[] := '{}';  -- gave less than it was asked for: nothing more to get
    v_ids uuid[];
    v_bytes bigint := a_bytes;  -- that are left; less than none once a job did not fit
BEGIN
    o_claimed := '{}';
    SELECT token, number, fence
    INTO v_last
    FROM {schema}.claim_requests
    WHERE worker = a_worker;
    IF v_last.token = a_token OR a_number < v_last.number THEN  -- one that is too late holds nothing
        o_fence := v_last.fence;
        SELECT array_agg(id) FILTER (WHERE fits), array_agg(id) FILTER (WHERE NOT fits)
        INTO o_leased, v_ids
        FROM (
            SELECT
                running.id,
                sum(octet_length(jobs.payload) + octet_length(jobs.headers)) OVER best_first <= a_bytes
                    OR row_number() OVER best_first = 1 AS fits
            FROM {schema}.running
            JOIN {schema}.jobs ON jobs.id = running.id
            WHERE running.token = a_token
              AND running.worker = a_worker
            WINDOW best_first AS (ORDER BY running.priority, running.since, running.seq ROWS UNBOUNDED PRECEDING)
        ) AS held;
        o_leased := coalesce(o_leased, '{}');
        IF v_ids IS NOT NULL THEN
            SELECT *
            INTO o_ready, o_changes
            FROM {set}return_leases(v_ids, a_token, a_keep_count, a_keep_age, a_failures, a_now);
        END IF;
        SELECT *
        INTO o_more, o_next_due
        FROM {set}look_ahead(a_queues, v_paused, NULL, a_now);
        RETURN;
    END IF;

    FOR v_at IN 1..cardinality(a_queues) LOOP
        v_total := v_total + a_counts[v_at];
        v_got[v_at] := 0;
        v_dry[v_at] := a_queues[v_at] = ANY (v_paused);
        CONTINUE WHEN v_dry[v_at] OR a_counts[v_at] = 0 OR v_bytes < 0;
        SELECT *
        INTO v_bytes, v_ids
        FROM {set}claim_from_queue(
            a_queues[v_at], a_counts[v_at], a_worker, a_token, a_now + a_lease, a_bookmarks,
            cardinality(o_claimed) > 0, a_now, v_bytes
        );
        o_claimed := o_claimed || v_ids;
        v_got[v_at] := cardinality(v_ids);
        v_dry[v_at] := v_got[v_at] < a_counts[v_at];
    END LOOP;
    v_left := v_total - cardinality(o_claimed);
    FOR v_at IN 1..cardinality(a_queues) LOOP
        EXIT WHEN v_left = 0 OR v_bytes < 0;
        v_want := least(v_left, coalesce(a_mosts[v_at], v_total) - v_got[v_at]);
        CONTINUE WHEN v_dry[v_at] OR v_want <= 0;
        SELECT *
        INTO v_bytes, v_ids
        FROM {set}claim_from_queue(
            a_queues[v_at], v_want, a_worker, a_token, a_now + a_lease, a_bookmarks,
            cardinality(o_claimed) > 0, a_now, v_bytes
        );
        o_claimed := o_claimed || v_ids;
        v_left := v_left - cardinality(v_ids);
    END LOOP;
    o_leased := o_claimed;
    IF a_bookmarks IS NULL THEN
        SELECT *
        INTO o_more, o_next_due
        FROM {set}look_ahead(a_queues, v_paused, o_claimed[cardinality(o_claimed)], a_now);
    ELSE  -- dead rows are in the way of a look: who got all that was asked for may ask again
        o_more := cardinality(o_claimed) >= v_total OR v_bytes < 0;
        SELECT outlook.o_next_due
        INTO o_next_due
        FROM {set}look_ahead(a_queues, a_queues, NULL, a_now) AS outlook;
    END IF;

    IF cardinality(o_claimed) > 0 OR a_again THEN
        o_fence := nextval({arrival});
        INSERT INTO {schema}.claim_requests AS request (worker, at, number, fence, token)
        VALUES (a_worker, a_now, a_number, o_fence, a_token)
        ON CONFLICT (worker) DO UPDATE
        SET at = excluded.at,
            number = excluded.number,
            fence = excluded.fence,
            token = excluded.token
        WHERE request.token <> excluded.token AND request.number <= excluded.number;
        IF NOT FOUND THEN
            RAISE serialization_failure USING MESSAGE = 'the same ask, or a later one, was answered meanwhile';
        END IF;
    END IF;
    IF cardinality(o_claimed) > 0 THEN
        DELETE FROM {schema}.idle_workers
        WHERE worker = a_worker;
    ELSIF v_total > 0 THEN  -- for five seconds, written again when half of them are over
        INSERT INTO {schema}.idle_workers AS idle (worker, until)
        SELECT a_worker, a_now + 5000000
        WHERE (SELECT 1 FROM {schema}.idle_workers WHERE worker = a_worker AND until > a_now + 2500000) IS NULL
        ON CONFLICT (worker) DO UPDATE
        SET until = excluded.until;
    END IF;
END
$packhorse$;
