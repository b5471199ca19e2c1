SELECT {schema}.drop_1($1, $2);
