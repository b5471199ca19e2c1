-- Return the records of a kind that are due, soonest first: name and text of each.
-- args: kind limit
-- needs: call key now cache reads record_of
local found, from = {}, 0
while #found < 2 * limit do
  local names = call('ZRANGEBYSCORE', key('dues', kind), '-inf', now, 'LIMIT', from, limit)
  prefetch(hash('records', kind), names)
  for _, name in ipairs(names) do
    local record = record_of(kind, name)
    if record and not record.gone and #found < 2 * limit then
      found[#found + 1] = name
      found[#found + 1] = get(hash('records', kind), name)
    end
  end
  if #names < tonumber(limit) then break end
  from = from + limit
end
return found
