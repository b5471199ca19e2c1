SELECT {schema}.enqueue_within_1($1::text)
