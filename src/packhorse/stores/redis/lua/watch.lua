-- Register interest in the end of jobs; answers those that have ended already.
-- args: ttl targets:1
local ids, over = column(targets, 1), {}
prefetch(ends, ids)
for _, id in ipairs(ids) do
  if get(ends, id) then
    over[#over + 1] = id
  else
    set(watched, id, int(now + ttl))
    set(zset('watches'), id, now + ttl)
  end
end
conclude_if_room()
return over
