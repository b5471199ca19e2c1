-- Watch for the end of jobs; return those that ended already or do not exist. A watch is written again once half of its
-- time is over. A job with a watch exists, because dropping a job removes its watch.
-- args: ttl targets:1
-- needs: call int now arguments cache reads writes jobs ended watched conclude_if_room
local ids, over, written = column(targets, 1), {}, false
prefetch(ended, ids)
prefetch(watched, ids)
for _, id in ipairs(ids) do
  local fresh = tonumber(get(watched, id) or 0) >= now + ttl / 2
  if get(ended, id) or not fresh and call('HSTRLEN', jobs.key, id) == 0 then
    over[#over + 1] = id
  elseif not fresh then
    set(watched, id, int(now + ttl))
    set(zset('watches'), id, int(now + ttl))
    written = true
  end
end
if written then conclude_if_room() end
return over
