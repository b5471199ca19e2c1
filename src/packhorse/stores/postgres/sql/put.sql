SELECT {schema}.puts_1($1, $2);
