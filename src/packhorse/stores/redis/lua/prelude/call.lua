-- Every command goes through `call`, and `commit` is the border between deciding and writing: what stands before it
-- may fail and has written nothing, what stands after it cannot fail. Tests put an instrumented pair in this place.
-- gives: call commit
call = redis.call
function commit() end
