SELECT name, checksum, compatible
FROM {schema}.migrations;
