-- Take a step of the layout unless it was taken; return the record with which it was taken before, or an empty string.
-- args: step record
-- needs: call key
local before = call('HGET', key('layout'), step)
if before then return before end
commit()
-- the step
call('HSET', key('layout'), step, record)
return ''
