INSERT INTO {schema}.migrations (name, checksum, compatible)
VALUES ($1, $2, $3);
