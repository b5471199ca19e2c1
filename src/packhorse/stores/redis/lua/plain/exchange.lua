-- The fast path of most exchanges: settled jobs are plain and done; leased jobs are plain, of one queue, and were never
-- leased before. Anything else is found before the border, and the script of the verb runs instead.
-- needs: call builtins key int now arguments commit_even_if_full claims commands counts write_counts log wake groups
local PLAIN = { [FLAG_PLAIN] = true, [FLAG_DUE_LATER] = true }

-- Return ids and ended rows of settled jobs by their live rows; nil if one of them is not plain, done and held.
local function ends_of(ids)
  local texts, first, seen, known, rows_of_ends = fetch_from(key('live'), ids), settlements.first, {}, {}, {}
  for i = 1, #ids do
    local id, text, data = ids[i], texts[i], ARGV[first + 2 * i - 1]
    local like = text and known[text]
    if text and not like then
      local place, mark = byte(text, PLACE_AT, MARK_AT)
      if place ~= RUNNING_BYTE or mark ~= MARK_NONE or not PLAIN[byte(text, HEAD_AT)] then return nil end
      local token, queue = sub(text, 1, TOKEN_END), match(text, '^([^\31]*)', QUEUE_AT)
      local proof = DONE .. token .. stamp .. sub(text, COUNTERS_AT, COUNTERS_END)
      like = { token = token, proof = proof, queue = queue, tally = tally_of(queue) }
      known[text] = like
    end
    local letter, high, low = byte(data, OUTCOME_AT, KEEP_END)
    if not like or letter ~= OUTCOME_DONE or sub(data, 1, TOKEN_END) ~= like.token or seen[id] then return nil end
    seen[id] = true
    local keep = ARGV[keeps.first + high * 256 + low - 1]
    if like.keep ~= keep then
      like.keep, like.group = keep, group_for(like.queue, DONE, keep)
      like.front = like.proof .. like.group.packed
    end
    local rest = sub(data, OUTCOME_REST_AT, OUTCOME_REST_END)
    rows_of_ends[2 * i - 1], rows_of_ends[2 * i] = id, like.front .. rest .. append_to_group(like.group, id)
    like.tally.running = like.tally.running - 1
  end
  return rows_of_ends
end

-- Return what is ready in a queue, best first: ids, how many of each priority, and the priorities that are empty then.
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

-- Return the records of these ids, and not many more than fit into the byte limit.
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

-- Return live rows and scores of leased jobs, as many as fit into the byte limit; nil if one is not plain and new.
local function rows_of_leases(ids, records)
  local holder, till = token .. worker .. RUNNING .. '0' .. FIRST_ATTEMPT .. NO_STEP, int(now + lease)
  local before, over, known = fetch_from(key('live'), ids), fetch_from(key('ended'), ids), {}
  local rows_of_live, scores, left = {}, {}, tonumber(max_bytes)
  for i = 1, #ids do
    local record = records[i]
    if not record or before[i] or over[i] then return nil end
    local at = byte(record) == FORM_READY and READY_HEAD_AT or LATER_HEAD_AT
    local stop = find(record, HEAD_STOP, at, true)
    if not PLAIN[byte(record, at)] or not stop then return nil end
    local head = sub(record, at, stop + 1)
    left = left - (#record - stop - RECORD_REST)
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
  local claims, next_due, paused, last = shares.count == 1, nil, false, { next_fence = 0 }
  local ids, taken, empty, records, leased_rows, scores = {}, {}, {}, {}, {}, {}
  if claims then
    last = last_claim(worker)
    if again == '1' or last.token == token or tonumber(number) < last.number then return nil end
    if call('HLEN', key('stale')) > 0 then return nil end
    next_due = tonumber(call('ZRANGEBYSCORE', key('scheduled', queue), '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
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
    spread('ZREM', key('running'), done)
    spread('HSET', key('ended'), ended_rows)
    write_groups()
    changed = packed_change('d', done)
  end
  if #ids > 0 then
    for priority, number in pairs(taken) do
      call('LTRIM', key('ready', queue .. '\31' .. priority), number, -1)
      call('HINCRBY', key('popped', queue), priority, number)
    end
    spread('HSET', key('live'), leased_rows)
    spread('ZADD', key('running'), scores)
    remember_claim(worker, token, last.next_fence, number)
    count(queue, 'ready', -#ids)
    count(queue, 'running', #ids)
    changed = changed .. packed_change('s', ids)
  end
  for i = 1, #empty do call('ZREM', key('priorities', queue), empty[i]) end
  write_tallies()
  if changed ~= '' then append_to_log(changed) end
  local more = claims and not paused and total(queue, 'ready') > 0
  if more then wake(queue) end
  return {
    int(now), string.rep('W', #done), concat(ids), string.rep(FIRST_ATTEMPT, #ids), '', {}, more and '1' or '0',
    next_due and int(next_due) or '', records, int(last.next_fence),
  }
end

local answer = plain()
if answer then return answer end
