-- name: create_migrations
CREATE TABLE IF NOT EXISTS packhorse_migrations (
    name TEXT PRIMARY KEY,
    checksum TEXT NOT NULL,
    compatible INTEGER NOT NULL
) WITHOUT ROWID;

-- name: steps_taken
SELECT name, checksum, compatible FROM packhorse_migrations;

-- name: take_step
INSERT INTO packhorse_migrations (name, checksum, compatible) VALUES (?1, ?2, ?3);

-- name: tables
-- Which of these names are taken.
SELECT name FROM sqlite_master WHERE name IN (SELECT value FROM json_each(?1)) ORDER BY name;
