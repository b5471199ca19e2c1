-- name: leases_of
SELECT l.seq, l.queue, l.priority, l.attempt, l.lost, l.flags, l.token, l.step, l.cancelling
FROM json_each(?1) AS k CROSS JOIN packhorse_running AS l ON l.seq = k.value;

-- name: settled_before
SELECT 1 FROM packhorse_ended WHERE seq = ?1 AND token = ?2
UNION ALL
SELECT 1 FROM packhorse_tries WHERE seq = ?1 AND token = ?2
UNION ALL
SELECT 1 FROM packhorse_tombstones WHERE id = ?3 AND token = ?2;

-- name: hold_step
UPDATE packhorse_running SET step = ?2 WHERE seq = ?1;

-- name: put_ended
INSERT INTO packhorse_ended (seq, retention_group, number, finished, token, attempt, lost, reason, result)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: end_plain
-- End plain jobs by their leases, each with its number and its result; a lease that is not as given is skipped.
INSERT INTO packhorse_ended (seq, retention_group, number, finished, token, attempt, lost, result)
SELECT l.seq, given.retention_group, d.column2, given.finished, l.token, l.attempt, l.lost, d.column3
FROM (SELECT ?1 AS retention_group, ?2 AS finished, ?3 AS token, ?4 AS queue) AS given
CROSS JOIN (VALUES (?, ?, ?)) AS d
CROSS JOIN packhorse_running AS l ON l.seq = d.column1
WHERE l.token = given.token AND l.queue = given.queue AND l.flags = 0
ON CONFLICT DO NOTHING;

-- name: ended_since
SELECT e.seq, e.token FROM json_each(?1) AS k CROSS JOIN packhorse_ended AS e ON e.seq = k.value WHERE e.number >= ?2;

-- name: find_retention_group
SELECT id FROM packhorse_retention_groups WHERE queue = ?1 AND state = ?2 AND keep_count = ?3 AND keep_age = ?4;

-- name: add_retention_group
INSERT INTO packhorse_retention_groups (queue, state, keep_count, keep_age) VALUES (?1, ?2, ?3, ?4);

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
