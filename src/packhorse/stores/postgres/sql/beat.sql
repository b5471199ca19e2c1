INSERT INTO {schema}.workers (until, seen, id, name, body)
SELECT seen + $4::bigint, seen, $1::uuid, $2::text, $3::bytea
FROM {set}call_time($5) AS seen
ON CONFLICT (id) DO UPDATE
SET until = excluded.until,
    seen = excluded.seen,
    name = excluded.name,
    body = excluded.body;
