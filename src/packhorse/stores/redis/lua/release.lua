-- Make jobs ready that wait for a reason, the longest waiting first; return how many.
-- args: reason limit tasks:1
-- needs: call builtins key arguments reads live live_rows stop_waiting note_change conclude

-- Return the jobs to release, at most as many as the limit, in order of arrival.
local function waiting()
  if tasks.count == 0 then return call('ZRANGE', key('reasons', reason), 0, limit - 1) end
  local found = {}
  for i = 1, tasks.count do
    local some = call('ZRANGE', key('reasons', reason .. '\31' .. cell(tasks, i, 1)), 0, limit - 1, 'WITHSCORES')
    for j = 1, #some, 2 do found[#found + 1] = { some[j], tonumber(some[j + 1]) } end
  end
  table.sort(found, function(one, other) return one[2] < other[2] end)
  local ids = {}
  for i = 1, min(#found, limit) do ids[i] = found[i][1] end
  return ids
end

local ids, released = waiting(), 0
prefetch(live, ids)
for _, id in ipairs(ids) do
  local text = get(live, id)
  local row = text and row_of(text)
  if row and row.place == WAITING then
    stop_waiting(id, row)
    note_change('r', id)
    released = released + 1
  end
end
conclude()
return released
