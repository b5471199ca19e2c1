-- Append events to their streams. The heads are locked last in the call and in the order of their names,
-- so offsets are dense and appear in order. Events by a refused settlement are left out.
CREATE FUNCTION {set}append_events(a_events json, a_refused integer[], a_now bigint)
RETURNS SETOF bigint
LANGUAGE plpgsql
AS $packhorse$
BEGIN
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT
            n,
            stream,
            key,
            convert_to(data, 'UTF8') AS data,
            row_number() OVER (PARTITION BY stream ORDER BY n) AS turn,
            count(*) OVER (PARTITION BY stream) AS total
        FROM ROWS FROM (
            json_to_recordset(a_events) AS ("by" integer, stream text COLLATE "C", key text, data text)
        ) WITH ORDINALITY AS event ("by", stream, key, data, n)
        WHERE a_refused IS NULL
           OR "by" <> ALL (a_refused)
    ), grown AS (
        INSERT INTO {schema}.stream_heads AS head (stream, last)
        SELECT stream, total
        FROM given
        WHERE turn = 1
        ORDER BY stream
        ON CONFLICT (stream) DO UPDATE
        SET last = head.last + excluded.last
        RETURNING stream, last
    ), added AS (
        INSERT INTO {schema}.events (stream, "offset", at, key, data)
        SELECT stream, grown.last - given.total + given.turn, a_now, given.key, given.data
        FROM given
        JOIN grown USING (stream)
    )
    SELECT grown.last - given.total + given.turn
    FROM given
    JOIN grown USING (stream)
    ORDER BY given.n;
END
$packhorse$;
