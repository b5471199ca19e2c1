-- Return the offsets of the first and the last event that a stream keeps; without events the first follows the last.
-- args: stream
-- needs: key call builtins int head_of_stream
local last, first = head_of_stream(stream), call('XRANGE', key('stream', stream), '-', '+', 'COUNT', 1)[1]
return { first and match(first[1], '^%d+') or int(last + 1), int(last) }
