-- Take a step of the layout unless it was taken; answers the checksum it was taken with before, or nothing.
-- args: step checksum
local before = call('HGET', key('layout'), step)
if before then return before end
commit()
-- the step
call('HSET', key('layout'), step, checksum)
return ''
