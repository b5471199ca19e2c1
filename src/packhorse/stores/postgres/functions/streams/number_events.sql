-- Give offsets to events of the lifecycle that have none yet, in the order they were written, and say to how many.
-- One at a time: the head's lock makes offsets dense, and none appears below one that was read already.
CREATE FUNCTION {set}number_events(a_limit integer)
RETURNS integer
LANGUAGE plpgsql
SET jit = off
AS $packhorse$
DECLARE
    v_last bigint;
    v_numbered integer;
BEGIN
    PERFORM 1
    FROM {schema}.lifecycle
    WHERE "offset" IS NULL
    ORDER BY seq
    LIMIT 1;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    INSERT INTO {schema}.stream_heads (stream, last)
    VALUES ('packhorse.jobs', 0)
    ON CONFLICT (stream) DO NOTHING;
    SELECT last
    INTO v_last
    FROM {schema}.stream_heads
    WHERE stream = 'packhorse.jobs'
    FOR UPDATE;
    WITH fresh AS (
        SELECT seq, v_last + row_number() OVER (ORDER BY seq) AS number
        FROM (
            SELECT seq
            FROM {schema}.lifecycle
            WHERE "offset" IS NULL
            ORDER BY seq
            LIMIT a_limit
        ) AS unnumbered
    ), numbered AS (
        UPDATE {schema}.lifecycle
        SET "offset" = fresh.number
        FROM fresh
        WHERE lifecycle.seq = fresh.seq
        RETURNING 1
    )
    SELECT count(*)
    INTO v_numbered
    FROM numbered;
    UPDATE {schema}.stream_heads
    SET last = v_last + v_numbered
    WHERE stream = 'packhorse.jobs';
    RETURN v_numbered;
END
$packhorse$;
