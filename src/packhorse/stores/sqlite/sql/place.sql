-- Moving jobs between places. What is put stands here for one row and is repeated for many (Step.put), rowids travel as
-- one JSON array; whatever is decided is decided in Python.

-- name: put_ready
INSERT INTO packhorse_ready (seq, queue, priority, since, number, attempt, lost, flags)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: put_scheduled
INSERT INTO packhorse_scheduled (seq, queue, priority, since, number, attempt, lost, flags)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: put_waiting
INSERT INTO packhorse_waiting (seq, queue, priority, since, number, attempt, lost, flags, reason, detail, lane, pending, kind, key, after)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: leave_ready
DELETE FROM packhorse_ready WHERE seq IN (SELECT value FROM json_each(?1));

-- name: leave_scheduled
DELETE FROM packhorse_scheduled WHERE seq IN (SELECT value FROM json_each(?1));

-- name: leave_waiting
DELETE FROM packhorse_waiting WHERE seq IN (SELECT value FROM json_each(?1));

-- name: leave_running
DELETE FROM packhorse_running WHERE seq IN (SELECT value FROM json_each(?1));

-- name: leave_ended
DELETE FROM packhorse_ended WHERE seq IN (SELECT value FROM json_each(?1));

-- name: places
-- Where jobs stand, by rowid; a cancel, a replay or a drop begins here.
SELECT k.value, 'ready', r.queue, r.priority, r.attempt, r.lost, r.flags
FROM json_each(?1) AS k CROSS JOIN packhorse_ready AS r ON r.seq = k.value
UNION ALL
SELECT k.value, 'scheduled', d.queue, d.priority, d.attempt, d.lost, d.flags
FROM json_each(?1) AS k CROSS JOIN packhorse_scheduled AS d ON d.seq = k.value
UNION ALL
SELECT k.value, 'running', l.queue, l.priority, l.attempt, l.lost, l.flags
FROM json_each(?1) AS k CROSS JOIN packhorse_running AS l ON l.seq = k.value
UNION ALL
SELECT k.value, 'waiting', w.queue, w.priority, w.attempt, w.lost, w.flags
FROM json_each(?1) AS k CROSS JOIN packhorse_waiting AS w ON w.seq = k.value
UNION ALL
SELECT k.value, s.state, s.queue, 0, e.attempt, e.lost, 0
FROM json_each(?1) AS k CROSS JOIN packhorse_ended AS e ON e.seq = k.value CROSS JOIN packhorse_retention_groups AS s ON s.id = e.retention_group;

-- name: seqs
-- The rowids of ids, which travel as one joined blob (there is no unhex before SQLite 3.41).
SELECT k.value, j.seq
FROM json_each(?2) AS k CROSS JOIN packhorse_jobs AS j ON j.id = substr(?1, k.value * 16 + 1, 16);

-- name: facts
-- What a record says beyond its place.
SELECT j.seq, j.id, j.queue, j.priority, j.due, j.flags, j.lane, j.lane_limit, j.parent, j.children, j.unique_key
FROM json_each(?1) AS k CROSS JOIN packhorse_jobs AS j ON j.seq = k.value;
