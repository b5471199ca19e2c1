-- Return a page of the ready jobs of a queue, best first: whether that was all, priority and position to continue from,
-- and priority, position and id of each good entry. Positions count from the first entry a list ever had.
-- args: queue priority position limit
-- needs: call builtins key int reads stale stale_entries
local found, looked = {}, 0
local at, last_priority = tonumber(position), priority

-- Of equal entries only the last can be good, and only if there are more of them than are stale.
local function good(ready_list, id, index)
  local spoilt = any_stale() and tonumber(get(stale, 'ready:' .. ready_list .. '\31' .. id) or 0) or 0
  if spoilt == 0 then return true end
  local positions = call('LPOS', key('ready', ready_list), id, 'COUNT', 0)
  return #positions > spoilt and positions[#positions] == index
end

local done = true
for _, each in ipairs(call('ZRANGEBYSCORE', key('priorities', queue), priority, '+inf')) do
  local ready_list = queue .. '\31' .. each
  local base = tonumber(call('HGET', key('popped', queue), each) or 0)
  local from = each == priority and max(at - base, 0) or 0
  local ids = call('LRANGE', key('ready', ready_list), from, from + limit - looked - 1)
  for i, id in ipairs(ids) do
    if good(ready_list, id, from + i - 1) then
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
