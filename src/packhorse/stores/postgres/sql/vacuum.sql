VACUUM (TRUNCATE off, SKIP_LOCKED) {schema}.{table};
