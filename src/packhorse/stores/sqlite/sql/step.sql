-- What every write does at its beginning and end.

-- name: moment
SELECT at, number FROM packhorse_moment;

-- name: set_moment
UPDATE packhorse_moment SET at = ?1, number = ?2;

-- name: count
INSERT INTO packhorse_counts (queue, state, n)
VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET n = n + excluded.n;

-- name: counts
INSERT INTO packhorse_counts (queue, state, n)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1)
WHERE true
ON CONFLICT DO UPDATE SET n = n + excluded.n;

-- name: forget_empty_queue
DELETE FROM packhorse_counts
WHERE queue = ?1 AND NOT EXISTS (SELECT 1 FROM packhorse_counts AS other WHERE other.queue = ?1 AND other.n <> 0);

-- name: past_counts
INSERT INTO packhorse_past_counts (queue, what, n)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1)
WHERE true
ON CONFLICT DO UPDATE SET n = n + excluded.n;

-- name: add_lifecycle
INSERT INTO packhorse_lifecycle (at, data) VALUES (?1, ?2);
