SELECT name, checksum
FROM {schema}.migrations;
