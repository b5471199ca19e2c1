-- name: beat
INSERT OR REPLACE INTO workers (id, until, seen, facts) VALUES (?1, ?2, ?3, ?4);

-- name: leave
DELETE FROM workers WHERE id = ?1;

-- name: living
SELECT facts, seen FROM workers WHERE until > ?1;
