-- A page of the ready jobs of a queue, best first: priority, position and id of each good entry, after the priority
-- and position to go on from and whether that was all. Positions count from the first entry a line ever had.
-- args: queue priority position limit
local found, looked = {}, 0
local at, last_priority = tonumber(position), priority

-- Of equal entries only the last may be good, and only if there are more of them than stale ones.
local function good(line, id, index)
  local spoilt = any_stale() and tonumber(get(stale, 'ready:' .. line .. '\31' .. id) or 0) or 0
  if spoilt == 0 then return true end
  local places = call('LPOS', key('ready', line), id, 'COUNT', 0)
  return #places > spoilt and places[#places] == index
end

local done = true
for _, each in ipairs(call('ZRANGEBYSCORE', key('priorities', queue), priority, '+inf')) do
  local line = queue .. '\31' .. each
  local base = tonumber(call('HGET', key('popped', queue), each) or 0)
  local from = each == priority and max(at - base, 0) or 0
  local ids = call('LRANGE', key('ready', line), from, from + limit - looked - 1)
  for i, id in ipairs(ids) do
    if good(line, id, from + i - 1) then
      found[#found + 1] = each
      found[#found + 1] = int(base + from + i - 1)
      found[#found + 1] = id
    end
  end
  looked = looked + #ids
  last_priority, at = each, base + from + #ids
  if looked >= tonumber(limit) then
    done = false
    break
  end
end
return { done and '1' or '0', last_priority, int(at), found }
