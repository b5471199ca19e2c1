-- Remove records and results of ended jobs beyond their keep, oldest first, and what else is over, of each kind at most
-- as many as the limit. Answers how many jobs and how many others were removed, and whether there may be more.
-- args: limit remember_chosen remember_other
local SHELVES, LOOKS, DELIVERIES = 500, 5000, 1000
local WINDOW = min(limit + 1, 100) -- entries of a shelf that are read at once
local removed, swept, looked, more = 0, 0, 0, false
limit = tonumber(limit)

-- Some fields of a hash, all if they are few: each call goes on where the last one stopped.
local places = {}
local function some_of(name, many)
  local scan = call('HSCAN', key(name), call('HGET', key('serials'), 'scanned:' .. name) or '0', 'COUNT', many)
  places[name] = scan[1]
  return scan[2]
end

local watches = zset('watches')
local any_watches = call('ZCARD', watches.key) > 0
local function is_watched(id) return any_watches and tonumber(get(watches, id) or 0) > now end

-- The oldest good entry of a shelf that is beyond its keep, or nil; stale entries before it are taken out.
local function candidate(shelf)
  while shelf.taken < shelf.length and looked < LOOKS do
    if not shelf.window or shelf.taken >= shelf.window_end then
      shelf.window_start = shelf.taken
      shelf.window = call('LRANGE', shelf.key, shelf.taken, shelf.taken + WINDOW - 1)
      shelf.window_end = shelf.taken + #shelf.window
      prefetch(ends, shelf.window)
      prefetch(delivered, shelf.window)
    end
    local id = shelf.window[shelf.taken - shelf.window_start + 1]
    local row = get(ends, id)
    looked = looked + 1
    if row and sub(row, 32, 35) == shelf.packed
      and unpacked('>I4', sub(row, -4)) == (shelf.base + shelf.taken) % 4294967296 then
      local finished = (unpacked('>d', sub(row, 18, 25)))
      local over = shelf.kept > shelf.count or finished + shelf.age <= now
      if over and not is_watched(id) then return { id, row, finished } end
      return nil -- one that is watched holds up those behind it, for seconds
    end
    shelf.taken = shelf.taken + 1
  end
  return nil
end

local function bury(id, row)
  local chosen = math.floor(byte(id, 7) / 16) == 8
  local till = now + (chosen and remember_chosen or remember_other)
  set(tombs, id, sub(row, 2, 17) .. sub(row, 1, 1) .. pack('>d', till))
  push(list('buried', chosen and 'chosen' or 'other'), id)
end

local function prune_jobs()
  local open = {}
  local all = some_of('shelves', SHELVES)
  for i = 1, #all, 2 do
    local queue, verdict, most, age = match(all[i], '^([^\31]*)\31(.)\31(%d+)\31(%d+)$')
    if queue then
      local shelf = shelf_of(all[i])
      shelf.queue, shelf.verdict, shelf.count, shelf.age = queue, verdict, tonumber(most), tonumber(age)
      shelf.first = candidate(shelf)
      if shelf.first then open[#open + 1] = shelf end
    end
  end
  more = more or places.shelves ~= '0' or looked >= LOOKS
  while #open > 0 and removed < limit do
    local at = 1
    for i = 2, #open do
      if open[i].first[3] < open[at].first[3] then at = i end
    end
    local shelf = open[at]
    local id, row = shelf.first[1], shelf.first[2]
    if forget(id, DELIVERIES) then
      bury(id, row)
      count(shelf.queue, WORDS[shelf.verdict], -1)
      shelf.taken, shelf.kept, removed = shelf.taken + 1, shelf.kept - 1, removed + 1
      shelf.first = candidate(shelf)
    else
      shelf.first, more = nil, true -- a parent of very many: its deliveries go a thousand a call
    end
    if not shelf.first then table.remove(open, at) end
  end
  if removed == limit then places.shelves, more = nil, true end -- the same shelves once more
end

local function count_swept(number)
  swept = swept + number
  more = more or number == limit
end

local function prune_tombs(name)
  local line, number = list('buried', name), 0
  while number < limit do
    local id = front(line)
    local tomb = id and get(tombs, id)
    if not id or tomb and unpacked('>d', sub(tomb, 18, 25)) > now then break end
    shift(line)
    if tomb then set(tombs, id, false) end
    number = number + 1
  end
  count_swept(number)
end

local function each_over(index, forget_one)
  local over = call('ZRANGEBYSCORE', key(index), '-inf', int(now), 'LIMIT', 0, limit)
  for i = 1, #over do
    set(zset(index), over[i], false)
    forget_one(over[i])
  end
  count_swept(#over)
end

local function prune_asks()
  local some = some_of('asks', 100)
  for i = 1, #some, 2 do
    local text = some[i + 1]
    if #text == 32 and unpacked('>d', sub(text, 17, 24)) + remember_other <= now then set(hash('asks'), some[i], false) end
  end
end

prune_tombs('chosen')
prune_tombs('other')
prune_jobs()
each_over('expiries', function(member)
  local kind, name = match(member, '^([^\31]*)\31(.*)$')
  local record = record_of(kind, name)
  if record and record.gone then drop_record(kind, name) end
end)
each_over('watches', function(id) set(watched, id, false) end)
each_over('beats', function(worker) set(hash('workers'), worker, false) end)
each_over('windows', function(unique)
  if get(uniques, unique) and not holder_of(unique) then set(uniques, unique, false) end
end)
prune_asks()
commit_even_if_full()
close()
call('XTRIM', key('stream', LIFECYCLE), 'MAXLEN', LOG)
forget_empty_queues()
for name, place in pairs(places) do call('HSET', key('serials'), 'scanned:' .. name, place) end
return { removed, swept, more and 1 or 0 }
