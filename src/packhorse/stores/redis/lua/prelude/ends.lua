-- How jobs end. However one ends, `leave` does what is owed to others: its unique key, its lane, its parent.
-- Ended jobs stand on shelves, one list for each queue, verdict and keep. A shelf has a number; an entry is good if
-- the row of the end names its shelf and its position, counted from the first entry the shelf ever had.
-- gives: WORDS shelf_rows shelf_of shelf_for shelved write_shelves finish unshelve take_back_delivery free_unique leave forget
WORDS = { d = 'done', k = 'dead', c = 'cancelled' }
local DELIVERED = 'packhorse.delivered'
local char = string.char
local shelves, next_shelf = {}, nil
shelf_rows = key('shelves')

-- Where the last number given was deleted by hand, the shelves tell it: two must never share a list.
local function highest_shelf()
  local highest, rows_of_shelves = 0, call('HVALS', shelf_rows)
  for i = 1, #rows_of_shelves do highest = max(highest, tonumber(match(rows_of_shelves[i], '^%d+'))) end
  return highest
end

function shelf_of(name)
  local shelf = shelves[name]
  if shelf then return shelf end
  local text = call('HGET', shelf_rows, name)
  if text then
    local number, base, kept = match(text, '^(%d+) (%d+) (%d+)$')
    shelf = { number = tonumber(number), base = tonumber(base), kept = tonumber(kept) }
  else
    next_shelf = (next_shelf or tonumber(call('HGET', key('serials'), 'shelves') or highest_shelf())) + 1
    shelf = { number = next_shelf, base = 0, kept = 0 }
  end
  shelf.packed = pack('>I4', shelf.number)
  shelf.key = key('shelf', int(shelf.number))
  shelf.length, shelf.taken, shelf.pushed, shelf.push_count = call('LLEN', shelf.key), 0, {}, 0
  shelves[name] = shelf
  return shelf
end

writers[#writers + 1] = function() write_shelves() end

function write_shelves()
  if next_shelf then call('HSET', key('serials'), 'shelves', int(next_shelf)) end
  next_shelf = nil
  for name, shelf in pairs(shelves) do
    if shelf.taken > 0 then call('LTRIM', shelf.key, shelf.taken, -1) end
    if shelf.push_count > 0 then
      spread('RPUSH', shelf.key, shelf.pushed)
      shelf.kept = shelf.kept + shelf.push_count
      count(shelf.queue, WORDS[shelf.verdict], shelf.push_count)
    end
    shelf.length, shelf.base = shelf.length + shelf.push_count - shelf.taken, shelf.base + shelf.taken
    shelf.taken, shelf.pushed, shelf.push_count = 0, {}, 0
    if shelf.length > 0 then
      call('HSET', shelf_rows, name, int(shelf.number) .. ' ' .. int(shelf.base) .. ' ' .. int(shelf.kept))
    else
      call('HDEL', shelf_rows, name)
    end
  end
end


-- The shelf for a queue, verdict and keep (its count \31 its age).
function shelf_for(queue, verdict, keep)
  local shelf = shelf_of(queue .. '\31' .. verdict .. '\31' .. keep)
  shelf.queue, shelf.verdict, shelf.keep = queue, verdict, keep
  return shelf
end

-- Puts a job on a shelf and answers its position.
function shelved(shelf, id)
  local pushes = shelf.push_count
  local position = (shelf.base + shelf.length + pushes) % 4294967296
  local low = position % 256
  if low == 0 or pushes == 0 then shelf.high = sub(pack('>I4', position), 1, 3) end
  shelf.pushed[pushes + 1], shelf.push_count = id, pushes + 1
  return shelf.high .. char(low)
end

-- Puts a job among the ended; `proof` is token, moment and counters, `tail` reason and result. Shelves once found are
-- remembered with the heads of their queue.
function finish(id, head, verdict, keep, proof, tail)
  local common = head.shared
  local shelf = common[verdict]
  if not shelf or shelf.keep ~= keep then
    shelf = shelf_for(head.queue, verdict, keep)
    common[verdict] = shelf
  end
  add(ends, id, verdict .. proof .. shelf.packed .. tail .. shelved(shelf, id))
  note(verdict, id)
end

-- Takes an ended job off its shelf and answers the name of that; its entry stays and is passed over.
local shelf_names
function unshelve(row)
  if not shelf_names then
    shelf_names = {}
    local all = call('HGETALL', shelf_rows)
    for i = 1, #all, 2 do shelf_names[match(all[i + 1], '^%d+')] = all[i] end
  end
  local name = shelf_names[int((unpacked('>I4', sub(row, 32, 35))))]
  if name then shelf_of(name).kept = shelf_of(name).kept - 1 end
  return name
end

local function from_hex(text)
  return (string.gsub(text, '..', function(pair) return string.char(tonumber(pair, 16)) end))
end

local function to_hex(id)
  return (string.gsub(id, '.', function(letter) return format('%02x', byte(letter)) end))
end

-- Leaves the outcome of a child for its parent, and lets the parent go on when that was the last it waits for.
local function deliver(id, head, word, result)
  local parent = from_hex(head.parent)
  if not get(jobs, parent) then return end
  local name = head.parent .. '/' .. to_hex(id)
  local first = not record_of(DELIVERED, name)
  put_record(DELIVERED, name, word .. (result and ' ' .. result or ''), 0, 0)
  local arrived_now = tonumber(get(delivered, parent) or 0) + (first and 1 or 0)
  if first then set(delivered, parent, int(arrived_now)) end
  local text = get(live, parent)
  local row = text and row_of(text)
  if not row or row.place ~= 'w' then return end
  local reason, pending = why(row)
  if reason == 'children' and arrived_now >= tonumber(pending) then let_go(parent, row) end
end

-- Takes back what a job that will run again has left for its parent.
function take_back_delivery(id, head)
  if not drop_record(DELIVERED, head.parent .. '/' .. to_hex(id)) then return end
  local parent = from_hex(head.parent)
  set(delivered, parent, int(tonumber(get(delivered, parent)) - 1))
end

function free_unique(id, head)
  local holder = get(uniques, head.unique)
  if holder and sub(holder, 1, 16) == id then set(uniques, head.unique, false) end
end

function leave(id, head, slot, word, result)
  if head.plain then return end
  if head.unique ~= '' and head.scope ~= 'w' then free_unique(id, head) end
  if slot then hand_on(head) end
  if head.parent ~= '' then deliver(id, head, word, result) end
end

-- What belongs to a record goes with it; answers whether all is gone, looking at no more than so many deliveries.
function forget(id, most)
  if get(delivered, id) then
    local prefix = to_hex(id) .. '/'
    local names = call('ZRANGEBYLEX', key('names', DELIVERED), '[' .. prefix, '(' .. to_hex(id) .. '0', 'LIMIT', 0, most)
    for i = 1, #names do drop_record(DELIVERED, names[i]) end
    if #names == most then return false end
    for name, score in pairs(zset('names', DELIVERED).changed) do -- delivered in this very call
      if score and sub(name, 1, 33) == prefix then drop_record(DELIVERED, name) end
    end
    set(delivered, id, false)
  end
  set(jobs, id, false)
  set(ends, id, false)
  set(tries, id, false)
  set(progress, id, false)
  return true
end
