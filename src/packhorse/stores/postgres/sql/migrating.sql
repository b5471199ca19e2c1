-- One migrator at a time, until its transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended({channel}, 0));
