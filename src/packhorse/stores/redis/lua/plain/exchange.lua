-- The exchange of most calls: what ended is done and plain, what is leased is plain, of one queue, and was never leased
-- before. Whatever else it meets, it meets before the border, and leaves the call to the whole verb.
local PLAIN = { [112] = true, [100] = true } -- the flags of heads
local FIRST = '\0\0\0\1\0\0' -- one attempt, no loss

-- What ended: ids and rows of ends, by what the live rows say; nil if one of them is not plain, done and held.
local function ends_of(ids)
  local texts, first, seen, known, rows_of_ends = fetch_from(key('live'), ids), settlements.first, {}, {}, {}
  for i = 1, #ids do
    local id, text, data = ids[i], texts[i], ARGV[first + 2 * i - 1]
    local like = text and known[text]
    if text and not like then
      local place, mark = byte(text, 33, 34)
      if place ~= 108 or mark ~= 48 or not PLAIN[byte(text, 45)] then return nil end
      local token, queue = sub(text, 1, 16), match(text, '^([^\31]*)', 46)
      like = { token = token, proof = 'd' .. token .. stamp .. sub(text, 35, 40), queue = queue, tally = tally_of(queue) }
      known[text] = like
    end
    local letter, high, low = byte(data, 17, 19)
    if not like or letter ~= 100 or sub(data, 1, 16) ~= like.token or seen[id] then return nil end
    seen[id] = true
    local keep = ARGV[keeps.first + high * 256 + low - 1]
    if like.keep ~= keep then
      like.keep, like.shelf = keep, shelf_for(like.queue, 'd', keep)
      like.front = like.proof .. like.shelf.packed
    end
    rows_of_ends[2 * i - 1], rows_of_ends[2 * i] = id, like.front .. sub(data, 20, -2) .. shelved(like.shelf, id)
    like.tally.running = like.tally.running - 1
  end
  return rows_of_ends
end

-- What is ready of a queue, best first: ids, how many of which priority, and the priorities whose lines are empty then.
local function ready_of(queue, wanted)
  local ids, taken, empty = {}, {}, {}
  for _, priority in ipairs(call('ZRANGE', key('priorities', queue), 0, -1)) do
    if #ids >= wanted then break end
    local got = call('LRANGE', key('ready', queue .. '\31' .. priority), 0, wanted - #ids - 1)
    if #got < wanted - #ids then empty[#empty + 1] = priority end
    if #got > 0 then taken[priority] = #got end
    if #ids == 0 then ids = got else for i = 1, #got do ids[#ids + 1] = got[i] end end
  end
  return ids, taken, empty
end

-- The records of these, and not many more of them than fit in the bytes asked for.
local LONGEST_HEAD = 4096
local function records_of(ids)
  if #ids <= READ_TOGETHER then return fetch_from(key('jobs'), ids) end
  local records, left = {}, tonumber(max_bytes)
  for first = 1, #ids, READ_TOGETHER do
    local some = call('HMGET', key('jobs'), unpack(ids, first, min(first + READ_TOGETHER - 1, #ids)))
    for i = 1, #some do
      records[first + i - 1] = some[i]
      left = left - (some[i] and #some[i] - LONGEST_HEAD or 0)
    end
    if left < 0 then break end
  end
  return records
end

-- Live rows and scores of what is leased, as many as fit in the bytes asked for; nil if one of them is not plain and new.
local function rows_of_leases(ids, records)
  local holder, till = token .. worker .. 'l0' .. FIRST .. NO_STEP, int(now + lease)
  local before, ended, known = fetch_from(key('live'), ids), fetch_from(key('ends'), ids), {}
  local rows_of_live, scores, left = {}, {}, tonumber(max_bytes)
  for i = 1, #ids do
    local record = records[i]
    if not record or before[i] or ended[i] then return nil end
    local at = byte(record) == 49 and 10 or 22
    local stop = find(record, '\30', at, true)
    if not PLAIN[byte(record, at)] or not stop then return nil end
    local head = sub(record, at, stop + 1)
    left = left - (#record - stop - 9)
    if left < 0 and i > 1 then return rows_of_live, scores end
    local row = known[head]
    if not row then
      row = holder .. head .. stamp .. sub(head, -1)
      known[head] = row
    end
    rows_of_live[2 * i - 1], rows_of_live[2 * i] = ids[i], row
    scores[2 * i - 1], scores[2 * i] = till, ids[i]
  end
  return rows_of_live, scores
end

local function plain()
  if effects.count > 0 or shares.count > 1 then return nil end
  local queue, wanted = cell(shares, 1, 1), tonumber(cell(shares, 1, 2))
  local asks, next_due, paused, last = shares.count == 1, nil, false, { next_fence = 0 }
  local ids, taken, empty, records, leased_rows, scores = {}, {}, {}, {}, {}, {}
  if asks then
    last = last_ask(worker)
    if again == '1' or last.token == token or tonumber(number) < last.number then return nil end
    if call('HLEN', key('stale')) > 0 then return nil end
    next_due = tonumber(call('ZRANGEBYSCORE', key('due', queue), '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
    if next_due and next_due <= now then return nil end
    paused = call('SISMEMBER', key('paused'), queue) == 1
    if not paused then ids, taken, empty = ready_of(queue, wanted) end
    records = records_of(ids)
    leased_rows, scores = rows_of_leases(ids, records)
    if not leased_rows then return nil end
    local fitting = #scores / 2
    if fitting < #ids then
      ids, taken, empty = ready_of(queue, fitting)
      for i = #records, fitting + 1, -1 do records[i] = nil end
    end
  end
  local done = column(settlements, 1)
  if #done > 0 and call('HLEN', key('watched')) > 1 then return nil end
  local ended_rows = ends_of(done)
  if not ended_rows then return nil end

  commit_even_if_full()
  local changed = ''
  if #done > 0 then
    spread('HDEL', key('live'), done)
    spread('ZREM', key('leases'), done)
    spread('HSET', key('ends'), ended_rows)
    write_shelves()
    changed = packed_change('d', done)
  end
  if #ids > 0 then
    for priority, number in pairs(taken) do
      call('LTRIM', key('ready', queue .. '\31' .. priority), number, -1)
      call('HINCRBY', key('popped', queue), priority, number)
    end
    spread('HSET', key('live'), leased_rows)
    spread('ZADD', key('leases'), scores)
    remember_ask(worker, token, last.next_fence, number)
    count(queue, 'ready', -#ids)
    count(queue, 'running', #ids)
    changed = changed .. packed_change('s', ids)
  end
  for i = 1, #empty do call('ZREM', key('priorities', queue), empty[i]) end
  write_tallies()
  if changed ~= '' then append_to_log(changed) end
  local more = asks and not paused and total(queue, 'ready') > 0
  if more then wake(queue) end
  return {
    int(now), string.rep('W', #done), concat(ids), string.rep(FIRST, #ids), '', {}, more and '1' or '0',
    next_due and int(next_due) or '', records, int(last.next_fence),
  }
end

local answer = plain()
if answer then return answer end
