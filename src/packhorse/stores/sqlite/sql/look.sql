-- name: view
-- All that is known of jobs, by rowid. Without bodies (?2 is 0) payload and result are not read from their pages.
SELECT
    j.seq, j.id, j.task, j.queue, CASE WHEN ?2 THEN CAST(j.payload AS BLOB) ELSE x'' END, CAST(j.headers AS BLOB), j.priority, j.enqueued_at, j.tenant, j.lane, j.lane_limit, j.parent,
    j.children, j.unique_key,
    CASE
        WHEN e.seq IS NOT NULL THEN s.state
        WHEN l.seq IS NOT NULL THEN 'running'
        WHEN r.seq IS NOT NULL THEN 'ready'
        WHEN d.seq IS NOT NULL THEN 'scheduled'
        ELSE 'waiting'
    END,
    coalesce(e.finished, l.claimed, r.since, d.since, w.since),
    coalesce(e.attempt, l.attempt, r.attempt, d.attempt, w.attempt),
    coalesce(e.lost, l.lost, r.lost, d.lost, w.lost),
    coalesce(e.reason, w.reason), w.detail, w.pending, l.worker, l.until, l.cancelling, f.delivered, n.progress,
    CASE WHEN ?2 THEN e.result END
FROM json_each(?1) AS k
CROSS JOIN packhorse_jobs AS j ON j.seq = k.value
LEFT JOIN packhorse_ended AS e ON e.seq = j.seq
LEFT JOIN packhorse_retention_groups AS s ON s.id = e.retention_group
LEFT JOIN packhorse_running AS l ON l.seq = j.seq
LEFT JOIN packhorse_ready AS r ON r.seq = j.seq
LEFT JOIN packhorse_scheduled AS d ON d.seq = j.seq
LEFT JOIN packhorse_waiting AS w ON w.seq = j.seq
LEFT JOIN packhorse_families AS f ON f.seq = j.seq
LEFT JOIN packhorse_progress AS n ON n.seq = j.seq
ORDER BY k.key;

-- name: failures
SELECT t.seq, t.attempt, t.at, t.error
FROM json_each(?1) AS k CROSS JOIN packhorse_tries AS t ON t.seq = k.value
WHERE t.error IS NOT NULL
ORDER BY t.seq, t.number;

-- name: page_scheduled
-- The first parameter is the last queue to look at: a blob is greater than any text. So the index has both ends.
SELECT seq, queue, since, number FROM packhorse_scheduled
WHERE queue <= ?1 AND (queue, since, number) > (?2, ?3, ?4)
ORDER BY queue, since, number
LIMIT ?5;

-- name: page_ready
SELECT seq, queue, priority, since, number FROM packhorse_ready
WHERE queue <= ?1 AND (queue, priority, since, number) > (?2, ?3, ?4, ?5)
ORDER BY queue, priority, since, number
LIMIT ?6;

-- name: page_running
SELECT seq, seq FROM packhorse_running
WHERE ?1 IN (x'', queue) AND seq > ?2
ORDER BY seq
LIMIT ?3;

-- name: page_waiting
SELECT seq, queue, since, number FROM packhorse_waiting
WHERE queue <= ?1 AND (queue, since, number) > (?2, ?3, ?4)
ORDER BY queue, since, number
LIMIT ?5;

-- name: page_ended
SELECT seq, number FROM packhorse_ended
WHERE retention_group = ?1 AND number < ?2
ORDER BY number DESC
LIMIT ?3;

-- name: all_counts
SELECT queue, state, n FROM packhorse_counts;

-- name: past_counts_of
SELECT what, n FROM packhorse_past_counts WHERE queue = ?1;

-- name: queue_names
SELECT queue FROM packhorse_counts
UNION
SELECT name FROM packhorse_queues WHERE paused = 1
ORDER BY 1;

-- name: oldest_ready
-- From one priority to the next by the index, however many jobs are in between.
WITH RECURSIVE p (priority) AS (
    SELECT min(priority) FROM packhorse_ready WHERE queue = ?1
    UNION ALL
    SELECT (SELECT min(priority) FROM packhorse_ready WHERE queue = ?1 AND priority > p.priority) FROM p WHERE p.priority IS NOT NULL
)
SELECT min((SELECT since FROM packhorse_ready WHERE queue = ?1 AND priority = p.priority ORDER BY since LIMIT 1)) FROM p;

-- name: pause
INSERT INTO packhorse_queues (name, paused) VALUES (?1, ?2)
ON CONFLICT DO UPDATE SET paused = excluded.paused;
