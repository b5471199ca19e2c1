-- Store plain jobs of one queue and priority, all or none, each id once; return number and id of those that existed, or
-- nil and write nothing if scheduled jobs of the queue must be made ready first.
-- args: queue priority new_jobs:2
-- needs: call key now arguments commands log wake
if call('ZRANGEBYSCORE', key('scheduled', queue), '-inf', now, 'LIMIT', 0, 1)[1] then return nil end
local ids, first, form = column(new_jobs, 1), new_jobs.first, '1' .. stamp
local stored, removed_before = fetch_from(key('jobs'), ids), fetch_from(key('tombstones'), ids)
local made, taken, puts, n = {}, {}, {}, 0
for i = 1, #ids do
  if stored[i] or removed_before[i] then
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
-- Only a list that was empty may have a priority that is not listed.
if call('RPUSH', key('ready', queue .. '\31' .. priority), unpack(made)) == n then
  call('ZADD', key('priorities', queue), priority, priority)
end
call('HINCRBY', key('counts'), queue .. '\31ready', n)
append_to_log(packed_change('q', made))
wake(queue)
return taken
