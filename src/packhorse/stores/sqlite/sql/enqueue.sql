-- name: add_job
INSERT INTO packhorse_jobs (
    seq, id, queue, task, priority, enqueued_at, due, flags, payload, headers, tenant, lane, lane_limit, parent, children, unique_key
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_jobs
-- All or nothing is the caller's affair: fewer rows than given means that some ids are taken.
INSERT INTO packhorse_jobs (seq, id, queue, task, priority, enqueued_at, due, flags, payload, headers, tenant, lane, lane_limit)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: add_plain
-- The same for jobs that say no more than this, ready at ?1.
INSERT INTO packhorse_jobs (enqueued_at, due, flags, seq, id, queue, task, priority, payload, headers)
VALUES (?1, ?1, 0, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: has_tombstone
SELECT 1 FROM packhorse_tombstones WHERE id = ?1;

-- name: any_tombstone
SELECT 1 FROM json_each(?2) AS k CROSS JOIN packhorse_tombstones AS t ON t.id = substr(?1, k.value * 16 + 1, 16) LIMIT 1;

-- name: take_back_jobs
DELETE FROM packhorse_jobs WHERE seq >= ?1;

-- name: ready_new
INSERT INTO packhorse_ready (seq, queue, priority, since, number, attempt, lost, flags)
SELECT seq, queue, priority, ?3, seq, 0, 0, flags FROM packhorse_jobs
WHERE seq BETWEEN ?1 AND ?2;

-- name: taken
SELECT 1 FROM packhorse_jobs WHERE id = ?1
UNION ALL
SELECT 1 FROM packhorse_tombstones WHERE id = ?1;

-- name: unique_holder
SELECT id FROM packhorse_unique_keys WHERE key = ?1 AND (until IS NULL OR until > ?2);

-- name: take_unique
INSERT OR REPLACE INTO packhorse_unique_keys (key, id, until) VALUES (?1, ?2, ?3);

-- name: free_unique_keys
-- Windows outlive the job.
DELETE FROM packhorse_unique_keys
WHERE until IS NULL
AND (key, id) IN (SELECT j.unique_key, j.id FROM json_each(?1) AS k CROSS JOIN packhorse_jobs AS j ON j.seq = k.value);
