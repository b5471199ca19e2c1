-- compatible: no
-- The server keeps a small hash or sorted set as a flat list and searches it, which halves the rate of a worker. An entry
-- over 64 bytes turns it into a table for good.
-- needs: call key
local long = string.rep('-', 80)
for _, kind in ipairs({
  'jobs', 'live', 'ended', 'tries', 'tombstones', 'uniques', 'lane_slots', 'delivered', 'progress', 'watched', 'counts', 'claims',
}) do
  call('HSET', key(kind), '', long)
end
call('ZADD', key('running'), '+inf', long)
