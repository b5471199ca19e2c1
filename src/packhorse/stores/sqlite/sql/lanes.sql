-- name: lanes_held
SELECT k.key, l.held, EXISTS (SELECT 1 FROM packhorse_waiting AS w WHERE w.queue = ?1 AND w.lane = k.value)
FROM json_each(?2) AS k CROSS JOIN packhorse_lanes AS l ON l.queue = ?1 AND l.lane = k.value;

-- name: laned_due
-- Whether a job of this queue has come due that has not asked its lane yet.
SELECT 1 FROM packhorse_scheduled WHERE queue = ?1 AND since <= ?2 AND flags & 3 = 2 LIMIT 1;

-- name: hold_lanes
INSERT INTO packhorse_lanes (queue, lane, held)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1)
WHERE true
ON CONFLICT DO UPDATE SET held = held + excluded.held;

-- name: empty_lanes
DELETE FROM packhorse_lanes
WHERE held <= 0 AND (queue, lane) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1));

-- name: next_in_lanes
-- The first behind each lane. By rowid, or the whole lane would be read.
SELECT k.key, w.seq, w.priority, w.attempt, w.lost, w.flags
FROM json_each(?2) AS k
CROSS JOIN packhorse_waiting AS w ON w.seq = (
    SELECT x.seq FROM packhorse_waiting AS x
    WHERE x.queue = ?1 AND x.lane = k.value
    ORDER BY x.number
    LIMIT 1
);
