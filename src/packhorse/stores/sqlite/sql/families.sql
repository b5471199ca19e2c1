-- name: lanes_and_parents
SELECT j.seq, j.id, j.lane, j.parent
FROM json_each(?1) AS k CROSS JOIN packhorse_jobs AS j ON j.seq = k.value;

-- name: parent
SELECT seq FROM packhorse_jobs WHERE id = ?1;

-- name: delivered
SELECT delivered FROM packhorse_families WHERE seq = ?1;

-- name: deliver
INSERT INTO packhorse_families (seq, delivered) VALUES (?1, 1)
ON CONFLICT DO UPDATE SET delivered = delivered + 1
RETURNING delivered;

-- name: take_back_delivery
UPDATE packhorse_families SET delivered = delivered - 1 WHERE seq = (SELECT seq FROM packhorse_jobs WHERE id = ?1);

-- name: tried
-- One that was run before has had its moment.
SELECT 1 FROM packhorse_tries WHERE seq = ?1 LIMIT 1;

-- name: pending_parent
SELECT queue, priority, attempt, lost, flags FROM packhorse_waiting WHERE seq = ?1 AND pending <= ?2;
