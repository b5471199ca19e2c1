SELECT {schema}.publish_1($1, NULL, {schema}.moment_1($2));
