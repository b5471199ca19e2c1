-- Call an entry point of the function set.
SELECT * FROM {function}({parameters})
