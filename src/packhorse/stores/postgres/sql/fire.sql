SELECT {schema}.fire_1($1, $2, $3);
