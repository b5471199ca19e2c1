-- A small hash or sorted set is kept flat and searched from its start, which halves the rate of a worker; one entry
-- over 64 bytes makes a real table of it, for good.
local long = string.rep('-', 80)
for _, kind in ipairs({
  'jobs', 'live', 'ends', 'tries', 'tombs', 'uniques', 'held', 'delivered', 'progress', 'watched', 'counts', 'asks',
}) do
  call('HSET', key(kind), '', long)
end
call('ZADD', key('leases'), '+inf', long)
