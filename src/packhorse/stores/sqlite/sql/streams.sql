-- name: advance_stream_head
INSERT INTO packhorse_stream_heads (stream, last) VALUES (?1, ?2)
ON CONFLICT DO UPDATE SET last = last + excluded.last
RETURNING last;

-- name: add_events
INSERT INTO packhorse_events (stream, number, at, key, data)
SELECT value ->> 0, value ->> 1, ?1, value ->> 2, CAST(value ->> 3 AS BLOB) FROM json_each(?2);

-- name: read_events
SELECT number, at, key, CAST(data AS BLOB) FROM packhorse_events WHERE stream = ?1 AND number > ?2 ORDER BY number LIMIT ?3;

-- name: event_bounds
SELECT
    (SELECT min(number) FROM packhorse_events WHERE stream = ?1),
    coalesce((SELECT last FROM packhorse_stream_heads WHERE stream = ?1), 0);

-- name: lifecycle_bounds
SELECT (SELECT min(number) FROM packhorse_lifecycle), coalesce((SELECT max(number) FROM packhorse_lifecycle), 0);

-- name: stream_heads
SELECT CASE value WHEN 'packhorse.jobs'
    THEN coalesce((SELECT max(number) FROM packhorse_lifecycle), 0)
    ELSE coalesce((SELECT last FROM packhorse_stream_heads WHERE stream = value), 0)
END
FROM json_each(?1)
ORDER BY json_each.key;

-- name: trim_events
DELETE FROM packhorse_events
WHERE rowid IN (SELECT rowid FROM packhorse_events WHERE stream = ?1 AND number < ?2 ORDER BY number LIMIT ?3);

-- name: trim_lifecycle
-- Numbers are dense, so the limit is a number too. The newest stays: SQLite gives the next one the number after it.
DELETE FROM packhorse_lifecycle
WHERE number < min(
    ?2,
    (SELECT min(number) FROM packhorse_lifecycle) + ?3,
    (SELECT max(number) FROM packhorse_lifecycle)
);

-- name: read_lifecycle
SELECT number, at, NULL, CAST(data AS BLOB) FROM packhorse_lifecycle WHERE number > ?2 ORDER BY number LIMIT ?3;
