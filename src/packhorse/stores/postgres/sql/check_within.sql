-- The isolation level of a transaction of the caller's own as a string of JSON; null if it is in another database.
SELECT to_json(CASE WHEN {set}is_other_database($1::text) THEN NULL ELSE current_setting('transaction_isolation') END)::text
