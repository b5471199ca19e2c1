SELECT {schema}.replay_1($1, $2, $3);
