-- What must be there before the first step can be noted.
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.migrations (
    name text PRIMARY KEY,
    checksum text NOT NULL,
    compatible boolean NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);
