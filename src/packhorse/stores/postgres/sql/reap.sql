SELECT o_id, o_worker, o_attempt, o_lost, o_state
FROM {schema}.reap_1($1, $2, $3, $4, $5, $6, $7, $8);
