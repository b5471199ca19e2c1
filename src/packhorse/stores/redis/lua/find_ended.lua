-- A page of the ended jobs of a queue with one verdict, newest first over all its shelves: whether that was all, shelf
-- and position to go on below for each shelf, and shelf, position and id of each found.
-- args: queue verdict limit positions:2
local LOOKS = 2000
local given, open, looked = {}, {}, 0
for i = 1, positions.count do given[cell(positions, i, 1)] = tonumber(cell(positions, i, 2)) end

-- The newest good entry of a shelf below where it was looked at so far, or nil at its end.
local function newest(shelf)
  while shelf.at > shelf.base and looked < LOOKS do
    if shelf.at <= shelf.window_from then
      shelf.window_from = max(shelf.at - limit, shelf.base)
      local from = shelf.window_from - shelf.base
      shelf.window = call('LRANGE', shelf.key, from, shelf.at - shelf.base - 1)
      prefetch(ends, shelf.window)
    end
    local id = shelf.window[shelf.at - shelf.window_from]
    local row = get(ends, id)
    looked = looked + 1
    if row and sub(row, 32, 35) == shelf.packed and unpacked('>I4', sub(row, -4)) == (shelf.at - 1) % 4294967296 then
      return { id = id, finished = (unpacked('>d', sub(row, 18, 25))) }
    end
    shelf.at = shelf.at - 1
  end
  return nil
end

local all = call('HGETALL', shelf_rows)
for i = 1, #all, 2 do
  local of, how = match(all[i], '^([^\31]*)\31(.)\31')
  if of == queue and how == verdict then
    local shelf = shelf_of(all[i])
    shelf.at = min(given[int(shelf.number)] or math.huge, shelf.base + shelf.length)
    shelf.window_from = shelf.at
    open[#open + 1] = shelf
  end
end
table.sort(open, function(one, other) return one.number < other.number end)

local found, done = {}, false
while #found < 3 * limit and looked < LOOKS do
  local best
  for _, shelf in ipairs(open) do
    shelf.first = shelf.first or newest(shelf)
    if shelf.first and (not best or shelf.first.finished > best.first.finished) then best = shelf end
  end
  if not best then
    done = looked < LOOKS
    break
  end
  best.at = best.at - 1
  found[#found + 1] = int(best.number)
  found[#found + 1] = int(best.at)
  found[#found + 1] = best.first.id
  best.first = nil
end

local going_on = {}
for _, shelf in ipairs(open) do
  going_on[#going_on + 1] = int(shelf.number)
  going_on[#going_on + 1] = int(shelf.at)
end
return { done and '1' or '0', going_on, found }
