-- name: beat
INSERT OR REPLACE INTO packhorse_workers (id, until, seen, facts) VALUES (?1, ?2, ?3, ?4);

-- name: leave
DELETE FROM packhorse_workers WHERE id = ?1;

-- name: live_workers
SELECT facts, seen FROM packhorse_workers WHERE until > ?1;
