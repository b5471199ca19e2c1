-- name: kin
SELECT j.seq, j.id, j.lane, j.parent
FROM json_each(?1) AS k CROSS JOIN jobs AS j ON j.seq = k.value;

-- name: living_parent
-- A parent that ended in the same step, but after its child, lived when the child ended.
SELECT seq FROM jobs
WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM ends WHERE ends.seq = jobs.seq AND ends.number < ?2);

-- name: delivered
SELECT delivered FROM families WHERE seq = ?1;

-- name: deliver
INSERT INTO families (seq, delivered) VALUES (?1, 1)
ON CONFLICT DO UPDATE SET delivered = delivered + 1
RETURNING delivered;

-- name: tried
-- One that was run before has had its moment.
SELECT 1 FROM tries WHERE seq = ?1 LIMIT 1;

-- name: pending_parent
SELECT queue, priority, attempt, lost, flags FROM waits WHERE seq = ?1 AND pending <= ?2;
