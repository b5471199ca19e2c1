-- Return the records of a kind that have not expired: for each its text, or an empty string.
-- args: kind names:1
-- needs: arguments cache reads record_of
local found = {}
prefetch(hash('records', kind), column(names, 1))
for i = 1, names.count do
  local name = cell(names, i, 1)
  local record = record_of(kind, name)
  found[i] = record and not record.gone and get(hash('records', kind), name) or ''
end
return found
