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
