SELECT {function}($1::text)
