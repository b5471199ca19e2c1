-- name: leases_of
SELECT l.seq, l.queue, l.priority, l.attempt, l.lost, l.flags, l.token, l.step, l.cancelling
FROM json_each(?1) AS k CROSS JOIN packhorse_leases AS l ON l.seq = k.value;

-- name: settled_before
SELECT 1 FROM packhorse_ends WHERE seq = ?1 AND token = ?2
UNION ALL
SELECT 1 FROM packhorse_tries WHERE seq = ?1 AND token = ?2
UNION ALL
SELECT 1 FROM packhorse_tombs WHERE id = ?3 AND token = ?2;

-- name: hold_step
UPDATE packhorse_leases SET step = ?2 WHERE seq = ?1;

-- name: put_ends
INSERT INTO packhorse_ends (seq, shelf, number, finished, token, attempt, lost, reason, result)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: end_plain
-- The ends of leases whose jobs nothing hangs on, each with its number and its result; one that is not as it is said to be
-- is passed over.
INSERT INTO packhorse_ends (seq, shelf, number, finished, token, attempt, lost, result)
SELECT l.seq, said.shelf, d.column2, said.finished, l.token, l.attempt, l.lost, d.column3
FROM (SELECT ?1 AS shelf, ?2 AS finished, ?3 AS token, ?4 AS queue) AS said
CROSS JOIN (VALUES (?, ?, ?)) AS d
CROSS JOIN packhorse_leases AS l ON l.seq = d.column1
WHERE l.token = said.token AND l.queue = said.queue AND l.flags = 0
ON CONFLICT DO NOTHING;

-- name: ended_since
SELECT e.seq, e.token FROM json_each(?1) AS k CROSS JOIN packhorse_ends AS e ON e.seq = k.value WHERE e.number >= ?2;

-- name: find_shelf
SELECT id FROM packhorse_shelves WHERE queue = ?1 AND state = ?2 AND keep_count = ?3 AND keep_age = ?4;

-- name: add_shelf
INSERT INTO packhorse_shelves (queue, state, keep_count, keep_age) VALUES (?1, ?2, ?3, ?4);

-- name: add_try
INSERT INTO packhorse_tries (seq, number, token, attempt, at, error) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: forget_tries
-- The newest stay; a failure is worth more than a bare token.
DELETE FROM packhorse_tries
WHERE seq = ?1 AND number IN (
    SELECT number FROM packhorse_tries WHERE seq = ?1 AND (error IS NOT NULL) = ?2
    ORDER BY number DESC
    LIMIT -1 OFFSET ?3
);
