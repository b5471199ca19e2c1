-- Answer an ask: what is left of the same leases if it was answered before, else each queue's share, then what is left
-- over in the order asked. Keeps the token of the last ask that got something, and who came away with nothing.
CREATE FUNCTION {schema}.lease_1(
    a_worker uuid,
    a_token uuid,
    a_lease bigint,
    a_queues text[],
    a_counts integer[],
    a_mosts integer[],
    a_hints json,
    a_now bigint,
    OUT o_leased uuid[],
    OUT o_claimed uuid[],
    OUT o_more boolean,
    OUT o_next_due bigint
)
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_paused text[] := ARRAY(SELECT name FROM {schema}.queues WHERE name = ANY (a_queues) AND paused);
    v_last uuid := (SELECT token FROM {schema}.asks WHERE worker = a_worker);
    v_total integer := 0;
    v_left integer;
    v_want integer;
    v_got integer[] := '{}';
    v_dry boolean[] := '{}';  -- gave less than it was asked for: nothing more to get
    v_ids uuid[];
BEGIN
    o_claimed := '{}';
    IF v_last = a_token THEN
        o_leased := ARRAY(SELECT id FROM {schema}.leases WHERE token = a_token AND worker = a_worker);
        SELECT *
        INTO o_more, o_next_due
        FROM {schema}.outlook_1(a_queues, v_paused, NULL, a_now);
        RETURN;
    END IF;

    FOR v_at IN 1..cardinality(a_queues) LOOP
        v_total := v_total + a_counts[v_at];
        v_got[v_at] := 0;
        v_dry[v_at] := a_queues[v_at] = ANY (v_paused);
        CONTINUE WHEN v_dry[v_at] OR a_counts[v_at] = 0;
        v_ids := {schema}.claim_1(a_queues[v_at], a_counts[v_at], a_worker, a_token, a_now + a_lease, a_hints, a_now);
        o_claimed := o_claimed || v_ids;
        v_got[v_at] := cardinality(v_ids);
        v_dry[v_at] := v_got[v_at] < a_counts[v_at];
    END LOOP;
    v_left := v_total - cardinality(o_claimed);
    FOR v_at IN 1..cardinality(a_queues) LOOP
        EXIT WHEN v_left = 0;
        v_want := least(v_left, coalesce(a_mosts[v_at], v_total) - v_got[v_at]);
        CONTINUE WHEN v_dry[v_at] OR v_want <= 0;
        v_ids := {schema}.claim_1(a_queues[v_at], v_want, a_worker, a_token, a_now + a_lease, a_hints, a_now);
        o_claimed := o_claimed || v_ids;
        v_left := v_left - cardinality(v_ids);
    END LOOP;
    o_leased := o_claimed;
    IF a_hints IS NULL THEN
        SELECT *
        INTO o_more, o_next_due
        FROM {schema}.outlook_1(a_queues, v_paused, o_claimed[cardinality(o_claimed)], a_now);
    ELSE  -- dead rows are in the way of a look: who got all that was asked for may ask again
        o_more := cardinality(o_claimed) >= v_total;
        SELECT outlook.o_next_due
        INTO o_next_due
        FROM {schema}.outlook_1(a_queues, a_queues, NULL, a_now) AS outlook;
    END IF;

    IF cardinality(o_claimed) > 0 THEN
        INSERT INTO {schema}.asks AS ask (worker, at, token)
        VALUES (a_worker, a_now, a_token)
        ON CONFLICT (worker) DO UPDATE
        SET at = excluded.at,
            token = excluded.token
        WHERE ask.token <> excluded.token;
        IF NOT FOUND THEN
            RAISE serialization_failure USING MESSAGE = 'the same ask was answered meanwhile';
        END IF;
        DELETE FROM {schema}.sleepers
        WHERE worker = a_worker;
    ELSIF v_total > 0 THEN  -- for five seconds, written again when half of them are over
        INSERT INTO {schema}.sleepers AS sleeper (worker, until)
        SELECT a_worker, a_now + 5000000
        WHERE (SELECT 1 FROM {schema}.sleepers WHERE worker = a_worker AND until > a_now + 2500000) IS NULL
        ON CONFLICT (worker) DO UPDATE
        SET until = excluded.until;
    END IF;
END
$packhorse$;
