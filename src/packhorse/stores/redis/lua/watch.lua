-- Register interest in the end of jobs; answers those that have ended already or are not there. A watch is written again
-- once half of its time is over; a job that has one is there, for whoever drops it takes its watch away.
-- args: ttl targets:1
local ids, over, written = column(targets, 1), {}, false
prefetch(ends, ids)
prefetch(watched, ids)
for _, id in ipairs(ids) do
  local fresh = tonumber(get(watched, id) or 0) >= now + ttl / 2
  if get(ends, id) or not fresh and call('HSTRLEN', jobs.key, id) == 0 then
    over[#over + 1] = id
  elseif not fresh then
    set(watched, id, int(now + ttl))
    set(zset('watches'), id, int(now + ttl))
    written = true
  end
end
if written then conclude_if_room() end
return over
