-- name: late
SELECT l.seq, j.id, l.worker, l.queue, l.priority, l.attempt, l.lost, l.flags, l.step, l.cancelling
FROM packhorse_leases AS l CROSS JOIN packhorse_jobs AS j ON j.seq = l.seq
WHERE l.until <= ?1
ORDER BY l.until, l.seq
LIMIT ?2;

-- name: parked
SELECT w.seq, j.id, w.queue, w.priority, w.attempt, w.lost, w.flags
FROM packhorse_waits AS w CROSS JOIN packhorse_jobs AS j ON j.seq = w.seq
WHERE w.reason = ?1 AND w.lane IS NULL AND w.pending IS NULL
AND (?2 IS NULL OR j.task IN (SELECT value FROM json_each(?2)))
ORDER BY w.since, w.number
LIMIT ?3;

-- name: promotable
-- Those of these jobs whose moment is to come, or that wait for this reason.
SELECT d.seq, 'scheduled', d.queue, d.priority, d.attempt, d.lost, d.flags
FROM json_each(?1) AS k CROSS JOIN packhorse_due AS d ON d.seq = k.value
WHERE d.since > ?2
UNION ALL
SELECT w.seq, 'waiting', w.queue, w.priority, w.attempt, w.lost, w.flags
FROM json_each(?1) AS k CROSS JOIN packhorse_waits AS w ON w.seq = k.value
WHERE w.reason = ?3;

-- name: watchable
-- Those of these jobs that have ended, and those that have no watch that lasts until then.
SELECT k.value, e.seq IS NOT NULL FROM json_each(?1) AS k
LEFT JOIN packhorse_ends AS e ON e.seq = k.value
LEFT JOIN packhorse_watched AS w ON w.seq = k.value
WHERE e.seq IS NOT NULL OR w.seq IS NULL OR w.until < ?2;

-- name: watch
INSERT OR REPLACE INTO packhorse_watched (until, seq) VALUES (?1, ?);

-- name: shelves
SELECT id, queue, state, keep_count, keep_age FROM packhorse_shelves;

-- name: some_shelves
-- The next few, each with how many of that end its queue has by the counts, and when its oldest ended.
SELECT
    s.id, s.queue, s.state, s.keep_count, s.keep_age, coalesce(c.n, 0),
    (SELECT e.finished FROM packhorse_ends AS e WHERE e.shelf = s.id ORDER BY e.number LIMIT 1)
FROM packhorse_shelves AS s LEFT JOIN packhorse_counts AS c ON c.queue = s.queue AND c.state = s.state
WHERE s.id > ?1
ORDER BY s.id
LIMIT ?2;

-- name: remove_shelf
DELETE FROM packhorse_shelves WHERE id = ?1;

-- name: shelf_edge
-- The newest that is one too many.
SELECT number FROM packhorse_ends WHERE shelf = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2;

-- name: overdue
-- Only the oldest that nobody watches are looked at: what comes after one that stays, stays.
SELECT e.seq, j.id, e.token
FROM (
    SELECT seq, number, finished, token FROM packhorse_ends AS e
    WHERE shelf = ?1
    AND NOT EXISTS (SELECT 1 FROM packhorse_watched AS w WHERE w.seq = e.seq AND min(w.until, e.finished + ?6) > ?5)
    ORDER BY number
    LIMIT ?4
) AS e
CROSS JOIN packhorse_jobs AS j ON j.seq = e.seq
WHERE e.number <= ?2 OR e.finished <= ?3
ORDER BY e.number;

-- name: settled_by
SELECT token FROM packhorse_ends WHERE seq = ?1;

-- name: bury
INSERT OR REPLACE INTO packhorse_tombs (state, id, token, forget) VALUES (?1, ?, ?, ?);

-- name: unbury
DELETE FROM packhorse_tombs WHERE id = ?1;

-- name: forget_tombs
DELETE FROM packhorse_tombs WHERE id IN (SELECT id FROM packhorse_tombs WHERE forget <= ?1 ORDER BY forget LIMIT ?2);

-- name: forget_uniques
DELETE FROM packhorse_uniques WHERE key IN (SELECT key FROM packhorse_uniques WHERE until <= ?1 ORDER BY until LIMIT ?2);

-- name: forget_records
DELETE FROM packhorse_records
WHERE rowid IN (SELECT rowid FROM packhorse_records WHERE expires > 0 AND expires <= ?1 ORDER BY expires LIMIT ?2);

-- name: forget_watches
DELETE FROM packhorse_watched
WHERE seq IN (SELECT seq FROM packhorse_watched WHERE until <= ?1 ORDER BY until LIMIT ?2);

-- name: forget_workers
DELETE FROM packhorse_workers WHERE id IN (SELECT id FROM packhorse_workers WHERE until <= ?1 LIMIT ?2);

-- name: forget_asks
DELETE FROM packhorse_asks WHERE at <= ?1 AND token NOT IN (SELECT token FROM packhorse_leases);

-- name: trim_lifecycle
DELETE FROM packhorse_lifecycle WHERE number <= (SELECT max(number) FROM packhorse_lifecycle) - ?1;

-- name: erase_jobs
DELETE FROM packhorse_jobs WHERE seq IN (SELECT value FROM json_each(?1));

-- name: erase_tries
DELETE FROM packhorse_tries WHERE seq IN (SELECT value FROM json_each(?1));

-- name: erase_notes
DELETE FROM packhorse_notes WHERE seq IN (SELECT value FROM json_each(?1));

-- name: erase_families
-- Those that have a row here, and no others, may have outcomes of children.
DELETE FROM packhorse_families WHERE seq IN (SELECT value FROM json_each(?1)) RETURNING seq;

-- name: erase_deliveries
DELETE FROM packhorse_records WHERE kind = ?1 AND key >= ?2 AND key < ?3;

-- name: note
INSERT OR REPLACE INTO packhorse_notes (seq, progress) VALUES (?1, ?2);
