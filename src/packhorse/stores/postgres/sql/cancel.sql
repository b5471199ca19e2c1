SELECT o_id, o_state
FROM {schema}.cancel_1($1, $2, $3, $4, $5);
