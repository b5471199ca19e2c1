SELECT {schema}.number_1($1);
