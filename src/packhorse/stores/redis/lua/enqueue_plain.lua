-- Store plain jobs of one queue and priority, all or none, each id once; answers number and id of those that were there,
-- or nothing, with nothing written, where scheduled jobs of the queue must be made ready before them.
-- args: queue priority wishes:2
if call('ZRANGEBYSCORE', key('due', queue), '-inf', now, 'LIMIT', 0, 1)[1] then return nil end
local ids, first, form = column(wishes, 1), wishes.first, '1' .. stamp
local stored, buried = fetch_from(key('jobs'), ids), fetch_from(key('tombs'), ids)
local made, taken, puts, n = {}, {}, {}, 0
for i = 1, #ids do
  if stored[i] or buried[i] then
    taken[#taken + 1] = i
    taken[#taken + 1] = ids[i]
  else
    n = n + 1
    made[n], puts[2 * n - 1], puts[2 * n] = ids[i], ids[i], form .. ARGV[first + 2 * i - 1]
  end
end
commit()
if n == 0 then return taken end
spread('HSET', key('jobs'), puts)
-- A line that was empty is the only one whose priority may not be known.
if call('RPUSH', key('ready', queue .. '\31' .. priority), unpack(made)) == n then
  call('ZADD', key('priorities', queue), priority, priority)
end
call('HINCRBY', key('counts'), queue .. '\31ready', n)
append_to_log(packed_change('q', made))
wake(queue)
return taken
