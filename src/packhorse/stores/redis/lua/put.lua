-- Write records by compare-and-set, one by one; return each new version, 0 for a drop, or an empty string.
-- args: puts:4
-- needs: int arguments puts conclude_if_room
local versions = {}
for i = 1, puts.count do
  local kind, name, text, value = cell(puts, i, 1), cell(puts, i, 2), cell(puts, i, 3), cell(puts, i, 4)
  versions[i] = version_after_put({}, kind, name, text) and int(apply_put(kind, name, text, value)) or ''
end
conclude_if_room()
return versions
