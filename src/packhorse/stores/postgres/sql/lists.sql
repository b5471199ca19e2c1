-- By this the driver learns how the lists look that travel in calls and answers.
SELECT $1::uuid[], $2::bytea[], $3::json[], $4::integer[], $5::bigint[], $6::smallint[];
