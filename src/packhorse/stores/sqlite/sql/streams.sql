-- name: advance_head
INSERT INTO packhorse_heads (stream, last) VALUES (?1, ?2)
ON CONFLICT DO UPDATE SET last = last + excluded.last
RETURNING last;

-- name: add_events
INSERT INTO packhorse_events (stream, number, at, key, data)
SELECT value ->> 0, value ->> 1, ?1, value ->> 2, CAST(value ->> 3 AS BLOB) FROM json_each(?2);

-- name: read_events
SELECT number, at, key, CAST(data AS BLOB) FROM packhorse_events WHERE stream = ?1 AND number > ?2 ORDER BY number LIMIT ?3;

-- name: read_lifecycle
SELECT number, at, NULL, CAST(data AS BLOB) FROM packhorse_lifecycle WHERE number > ?2 ORDER BY number LIMIT ?3;
