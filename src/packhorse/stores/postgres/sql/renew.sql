SELECT o_word
FROM {schema}.renew_1($1, $2, $3, $4)
ORDER BY o_n;
