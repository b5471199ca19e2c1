SELECT o_n, o_holder
FROM {schema}.enqueue_1($1, $2, $3, $4, $5);
