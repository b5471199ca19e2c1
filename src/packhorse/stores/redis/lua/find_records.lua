-- Return the records of a kind between two names, in order: the last name read, and name and text of each record.
-- args: kind from upto limit
-- needs: call key cache reads record_of
local all = call('ZRANGEBYLEX', key('names', kind), from, upto, 'LIMIT', 0, limit)
local found = { #all == tonumber(limit) and all[#all] or '' }
prefetch(hash('records', kind), all)
for _, name in ipairs(all) do
  local record = record_of(kind, name)
  if record and not record.gone then
    found[#found + 1] = name
    found[#found + 1] = get(hash('records', kind), name)
  end
end
return found
