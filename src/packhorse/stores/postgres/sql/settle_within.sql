SELECT {schema}.settle_within_1($1::text)
