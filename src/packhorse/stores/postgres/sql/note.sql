SELECT {schema}.note_1($1, $2, $3);
