-- Return a page of the ended jobs of a queue, or of all if none is named, with one verdict, newest first over all retention
-- groups: whether that was all, group and position to continue below for each group, and group, position and id of each
-- found.
-- args: queue verdict limit positions:2
-- needs: call builtins int arguments reads ended groups
local given, open, looked = {}, {}, 0
local max_entries_read -- each group is read once at least, else a page of many groups would not be in order
for i = 1, positions.count do given[cell(positions, i, 1)] = tonumber(cell(positions, i, 2)) end

-- The newest good entry of a group below the position read so far, or nil at its end.
local function newest(group)
  while group.at > group.base and looked < max_entries_read do
    if group.at <= group.window_from then
      group.window_from = max(group.at - group.window_size, group.base)
      group.window_size = min(2 * group.window_size, limit)
      local from = group.window_from - group.base
      group.window = call('LRANGE', group.key, from, group.at - group.base - 1)
      prefetch(ended, group.window)
    end
    local id = group.window[group.at - group.window_from]
    local row = get(ended, id)
    looked = looked + 1
    if row and sub(row, GROUP_AT, GROUP_END) == group.packed
      and unpacked('>I4', sub(row, POSITION_AT)) == (group.at - 1) % 4294967296 then
      return { id = id, finished = (unpacked('>d', sub(row, FINISHED_AT, FINISHED_END))) }
    end
    group.at = group.at - 1
  end
  return nil
end

local all = call('HGETALL', group_rows)
for i = 1, #all, 2 do
  local of, how = match(all[i], '^([^\31]*)\31(.)\31')
  if (queue == '' or of == queue) and how == verdict then
    local group = group_of(all[i])
    group.at = min(given[int(group.number)] or math.huge, group.base + group.length)
    group.window_from = group.at
    open[#open + 1] = group
  end
end
table.sort(open, function(one, other) return one.number < other.number end)
max_entries_read = 2000 + #open
for _, group in ipairs(open) do group.window_size = min(limit, math.ceil(2 * limit / #open)) end

local found, done = {}, false
while #found < 3 * limit and looked < max_entries_read do
  local best
  for _, group in ipairs(open) do
    group.first = group.first or newest(group)
    if group.first and (not best or group.first.finished > best.first.finished) then best = group end
  end
  if not best then
    done = looked < max_entries_read
    break
  end
  best.at = best.at - 1
  found[#found + 1] = int(best.number)
  found[#found + 1] = int(best.at)
  found[#found + 1] = best.first.id
  best.first = nil
end

local going_on = {}
for _, group in ipairs(open) do
  going_on[#going_on + 1] = int(group.number)
  going_on[#going_on + 1] = int(group.at)
end
return { done and '1' or '0', going_on, found }
