-- name: record
SELECT version, expires FROM packhorse_records WHERE kind = ?1 AND key = ?2;

-- name: write_record
INSERT INTO packhorse_records (kind, key, version, due, expires, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO UPDATE SET version = excluded.version, due = excluded.due, expires = excluded.expires, value = excluded.value;

-- name: drop_record
DELETE FROM packhorse_records WHERE kind = ?1 AND key = ?2;

-- name: waiting_on
SELECT seq, queue, priority, attempt, lost, flags FROM packhorse_waiting
WHERE kind = ?1 AND key = ?2 AND after < ?3
ORDER BY since, number;

-- name: get_records
SELECT k.key, r.value, r.version, r.due, r.expires
FROM json_each(?2) AS k CROSS JOIN packhorse_records AS r ON r.kind = ?1 AND r.key = k.value
WHERE r.expires = 0 OR r.expires > ?3;

-- name: find_records
SELECT key, value, version, due, expires FROM packhorse_records
WHERE kind = ?1 AND key >= ?2 AND key < ?3 AND (expires = 0 OR expires > ?4)
ORDER BY key
LIMIT ?5;

-- name: due_records
SELECT key, value, version, due, expires FROM packhorse_records
WHERE kind = ?1 AND due > 0 AND due <= ?2 AND (expires = 0 OR expires > ?2)
ORDER BY due, key
LIMIT ?3;

-- name: drop_records
DELETE FROM packhorse_records
WHERE kind = ?1 AND key IN (SELECT value FROM json_each(?2)) AND (expires = 0 OR expires > ?3);
