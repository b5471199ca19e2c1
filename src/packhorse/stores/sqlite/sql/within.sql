-- name: enter
-- The first statement on a connection of the caller's: it writes, so a transaction that is still to begin begins here,
-- and whoever writes meanwhile is waited for before anything is read.
UPDATE packhorse_moment SET at = max(at, ?1) WHERE one = 1
RETURNING at, number, (SELECT file FROM pragma_database_list WHERE seq = 0);

-- name: save
SAVEPOINT packhorse;

-- name: undo
ROLLBACK TO packhorse;

-- name: keep
RELEASE packhorse;
