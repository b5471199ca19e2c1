-- name: expired_leases
SELECT l.seq, j.id, l.worker, l.queue, l.priority, l.attempt, l.lost, l.flags, l.step, l.cancelling
FROM packhorse_running AS l CROSS JOIN packhorse_jobs AS j ON j.seq = l.seq
WHERE l.until <= ?1
ORDER BY l.until, l.seq
LIMIT ?2;

-- name: releasable
SELECT w.seq, j.id, w.queue, w.priority, w.attempt, w.lost, w.flags
FROM packhorse_waiting AS w CROSS JOIN packhorse_jobs AS j ON j.seq = w.seq
WHERE w.reason = ?1 AND w.lane IS NULL AND w.pending IS NULL
AND (?2 IS NULL OR j.task IN (SELECT value FROM json_each(?2)))
ORDER BY w.since, w.number
LIMIT ?3;

-- name: promotable
-- Those of these jobs whose moment is to come, or that wait for this reason.
SELECT d.seq, 'scheduled', d.queue, d.priority, d.attempt, d.lost, d.flags
FROM json_each(?1) AS k CROSS JOIN packhorse_scheduled AS d ON d.seq = k.value
WHERE d.since > ?2
UNION ALL
SELECT w.seq, 'waiting', w.queue, w.priority, w.attempt, w.lost, w.flags
FROM json_each(?1) AS k CROSS JOIN packhorse_waiting AS w ON w.seq = k.value
WHERE w.reason = ?3;

-- name: watchable
-- Those of these jobs that have ended, and those that have no watch that lasts until then.
SELECT k.value, e.seq IS NOT NULL FROM json_each(?1) AS k
LEFT JOIN packhorse_ended AS e ON e.seq = k.value
LEFT JOIN packhorse_watched_jobs AS w ON w.seq = k.value
WHERE e.seq IS NOT NULL OR w.seq IS NULL OR w.until < ?2;

-- name: watch
INSERT OR REPLACE INTO packhorse_watched_jobs (until, seq) VALUES (?1, ?);

-- name: retention_groups
SELECT id, queue, state, keep_count, keep_age FROM packhorse_retention_groups;

-- name: next_retention_groups
-- The next few, each with how many of that end its queue has by the counts, and when its oldest ended.
SELECT
    s.id, s.queue, s.state, s.keep_count, s.keep_age, coalesce(c.n, 0),
    (SELECT e.finished FROM packhorse_ended AS e WHERE e.retention_group = s.id ORDER BY e.number LIMIT 1)
FROM packhorse_retention_groups AS s LEFT JOIN packhorse_counts AS c ON c.queue = s.queue AND c.state = s.state
WHERE s.id > ?1
ORDER BY s.id
LIMIT ?2;

-- name: remove_retention_group
DELETE FROM packhorse_retention_groups WHERE id = ?1;

-- name: first_beyond_count
-- The newest that is one too many.
SELECT number FROM packhorse_ended WHERE retention_group = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2;

-- name: prunable
-- Only the oldest that nobody watches are looked at: what comes after one that stays, stays.
SELECT e.seq, j.id, e.token, e.finished
FROM (
    SELECT seq, number, finished, token FROM packhorse_ended AS e
    WHERE retention_group = ?1
    AND NOT EXISTS (SELECT 1 FROM packhorse_watched_jobs AS w WHERE w.seq = e.seq AND min(w.until, e.finished + ?6) > ?5)
    ORDER BY number
    LIMIT ?4
) AS e
CROSS JOIN packhorse_jobs AS j ON j.seq = e.seq
WHERE e.number <= ?2 OR e.finished <= ?3
ORDER BY e.number;

-- name: settled_by
SELECT token FROM packhorse_ended WHERE seq = ?1;

-- name: add_tombstone
INSERT OR REPLACE INTO packhorse_tombstones (state, id, token, forget) VALUES (?1, ?, ?, ?);

-- name: remove_tombstone
DELETE FROM packhorse_tombstones WHERE id = ?1;

-- name: forget_tombstones
DELETE FROM packhorse_tombstones WHERE id IN (SELECT id FROM packhorse_tombstones WHERE forget <= ?1 ORDER BY forget LIMIT ?2);

-- name: forget_unique_keys
DELETE FROM packhorse_unique_keys WHERE key IN (SELECT key FROM packhorse_unique_keys WHERE until <= ?1 ORDER BY until LIMIT ?2);

-- name: forget_records
DELETE FROM packhorse_records
WHERE rowid IN (SELECT rowid FROM packhorse_records WHERE expires > 0 AND expires <= ?1 ORDER BY expires LIMIT ?2);

-- name: forget_watched_jobs
DELETE FROM packhorse_watched_jobs
WHERE seq IN (SELECT seq FROM packhorse_watched_jobs WHERE until <= ?1 ORDER BY until LIMIT ?2);

-- name: forget_workers
DELETE FROM packhorse_workers WHERE id IN (SELECT id FROM packhorse_workers WHERE until <= ?1 LIMIT ?2);

-- name: forget_claim_requests
DELETE FROM packhorse_claim_requests WHERE at <= ?1 AND token NOT IN (SELECT token FROM packhorse_running);

-- name: lifecycle_bytes
-- The newest number, and the bytes of those above a number. The length of a blob is in its row's header: none is read.
SELECT
    coalesce((SELECT max(number) FROM packhorse_lifecycle), 0),
    (SELECT total(length(data)) FROM packhorse_lifecycle WHERE number > (SELECT max(number) FROM packhorse_lifecycle) - ?1);

-- name: newest_lifecycle
SELECT number, length(data) FROM packhorse_lifecycle WHERE number > ?1 ORDER BY number DESC;

-- name: drop_lifecycle
-- Numbers are dense, so the limit is a number too.
DELETE FROM packhorse_lifecycle WHERE number <= min(?1, (SELECT min(number) FROM packhorse_lifecycle) + ?2 - 1);

-- name: erase_jobs
DELETE FROM packhorse_jobs WHERE seq IN (SELECT value FROM json_each(?1));

-- name: erase_tries
DELETE FROM packhorse_tries WHERE seq IN (SELECT value FROM json_each(?1));

-- name: erase_progress
DELETE FROM packhorse_progress WHERE seq IN (SELECT value FROM json_each(?1));

-- name: erase_families
-- Those that have a row here, and no others, may have outcomes of children.
DELETE FROM packhorse_families WHERE seq IN (SELECT value FROM json_each(?1)) RETURNING seq;

-- name: erase_deliveries
DELETE FROM packhorse_records WHERE kind = ?1 AND key >= ?2 AND key < ?3;

-- name: note
INSERT OR REPLACE INTO packhorse_progress (seq, progress) VALUES (?1, ?2);
