-- name: any_temporary
SELECT 1 FROM sqlite_temp_master LIMIT 1;

-- name: in_force
SELECT
    (SELECT journal_mode FROM pragma_journal_mode),
    (SELECT synchronous FROM pragma_synchronous);
