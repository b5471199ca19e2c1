-- name: last_claim_request
SELECT token, number, fence FROM packhorse_claim_requests WHERE worker = ?1;

-- name: remember_ask
INSERT OR REPLACE INTO packhorse_claim_requests (worker, token, at, number, fence) VALUES (?1, ?2, ?3, ?4, ?5);

-- name: paused
SELECT name FROM packhorse_queues WHERE paused = 1;

-- name: due_now
SELECT seq, number, queue, priority, since, attempt, lost, flags FROM packhorse_scheduled
WHERE queue = ?1 AND since <= ?2
ORDER BY since, number
LIMIT 500;

-- name: ready_due
-- They keep their number: between jobs that become ready at the same moment arrival decides.
INSERT INTO packhorse_ready (seq, queue, priority, since, number, attempt, lost, flags)
SELECT d.seq, d.queue, d.priority, d.since, d.number, d.attempt, d.lost, d.flags
FROM json_each(?1) AS k CROSS JOIN packhorse_scheduled AS d ON d.seq = k.value;

-- name: number_laned
-- As those above: the jobs that were let in by their lanes get the numbers they had while they were scheduled.
UPDATE packhorse_ready SET number = k.value ->> 1 FROM json_each(?1) AS k WHERE packhorse_ready.seq = k.value ->> 0;

-- name: first_due
SELECT since FROM packhorse_scheduled WHERE queue = ?1 ORDER BY since, number LIMIT 1;

-- name: next_due
SELECT since FROM packhorse_scheduled WHERE queue = ?1 AND since > ?2 ORDER BY since, number LIMIT 1;

-- name: any_ready
SELECT 1 FROM packhorse_ready WHERE queue = ?1 LIMIT 1;

-- name: pick
SELECT
    r.seq, r.priority, r.since, r.number, r.attempt + 1, r.lost, r.flags,
    j.id, j.task, CAST(j.payload AS BLOB), CAST(j.headers AS BLOB), j.enqueued_at, j.lane, j.parent
FROM packhorse_ready AS r CROSS JOIN packhorse_jobs AS j ON j.seq = r.seq
WHERE r.queue = ?1
ORDER BY r.priority, r.since, r.number
LIMIT ?2;

-- name: lease
INSERT INTO packhorse_running (seq, queue, priority, since, number, claimed, until, token, worker, attempt, lost, flags)
SELECT seq, queue, priority, since, number, ?3, ?4, ?5, ?6, attempt + 1, lost, flags FROM packhorse_ready
WHERE queue = ?1
ORDER BY priority, since, number
LIMIT ?2;

-- name: leave_head
DELETE FROM packhorse_ready WHERE queue = ?1 AND (priority, since, number) <= (?2, ?3, ?4);

-- name: leases_by_token
SELECT
    l.queue, l.claimed, l.until, l.seq, l.priority, l.since, l.number, l.attempt, l.lost, l.flags,
    j.id, j.task, CAST(j.payload AS BLOB), CAST(j.headers AS BLOB), j.enqueued_at, j.lane, j.parent
FROM packhorse_running AS l CROSS JOIN packhorse_jobs AS j ON j.seq = l.seq
WHERE l.token = ?1
ORDER BY l.priority, l.since, l.number;

-- name: renew
UPDATE packhorse_running SET until = ?1
WHERE seq IN (SELECT value FROM json_each(?2));

-- name: mark_cancelling
UPDATE packhorse_running SET cancelling = 1
WHERE seq IN (SELECT value FROM json_each(?1));
