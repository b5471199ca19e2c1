SELECT {schema}.promote_1($1, $2, $3);
