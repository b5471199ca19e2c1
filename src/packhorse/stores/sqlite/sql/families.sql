-- name: living_parent
SELECT seq FROM jobs
WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM ends WHERE ends.seq = jobs.seq);

-- name: delivered
SELECT delivered FROM families WHERE seq = ?1;

-- name: deliver
INSERT INTO families (seq, delivered) VALUES (?1, 1)
ON CONFLICT DO UPDATE SET delivered = delivered + 1
RETURNING delivered;

-- name: pending_parent
SELECT queue, priority, attempt, lost, flags FROM waits WHERE seq = ?1 AND pending <= ?2;
