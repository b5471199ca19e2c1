-- Every command goes through `call`, and `commit` is the border between reading and writing: code before it may fail and
-- has written nothing, code after it cannot fail. Tests replace both functions.

-- part: call
-- gives: call commit
call = redis.call

function commit() end
