-- Remove the oldest events of a stream below an offset, at most as many as the limit; return how many.
-- Offsets are dense: the limit is an offset too. The newest event of the lifecycle of jobs stays.
-- args: stream below limit
-- needs: key call builtins int log head_of_stream commit_even_if_full
local last, first = head_of_stream(stream), call('XRANGE', key('stream', stream), '-', '+', 'COUNT', 1)[1]
if not first then return 0 end
local till = min(tonumber(below), tonumber(match(first[1], '^%d+')) + tonumber(limit))
if stream == LIFECYCLE then till = min(till, last) end
commit_even_if_full()
return call('XTRIM', key('stream', stream), 'MINID', int(till) .. '-0')
