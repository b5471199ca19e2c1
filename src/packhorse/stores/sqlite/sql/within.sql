-- name: database_list
-- Which file it is. Nothing of the file is read by this, so a transaction that is still to begin does not begin here;
-- asked of pragma_database_list, it would.
PRAGMA database_list;

-- name: enter
-- The first statement on a connection of the caller's: it writes, so a transaction that is still to begin begins here,
-- and whoever writes meanwhile is waited for before anything is read.
UPDATE packhorse_moment SET at = max(at, ?1) WHERE one = 1
RETURNING at, number;

-- name: save
SAVEPOINT packhorse;

-- name: undo
ROLLBACK TO packhorse;

-- name: keep
RELEASE packhorse;
