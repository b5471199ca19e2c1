-- A cache of hashes, sorted sets and lists. Scripts read and change the cached ones; `flush` writes the changes, many
-- fields with one command.

-- part: cache
-- gives: hash zset list buffered
-- needs: key
local cached, cached_by_key = {}, {}

local function add_to_cache(full, made)
  cached_by_key[full] = made
  cached[#cached + 1] = made
  return made
end

function hash(kind, name)
  local full = key(kind, name)
  return cached_by_key[full] or add_to_cache(full, { key = full, type = 'hash', seen = {}, changed = {} })
end

function zset(kind, name)
  local full = key(kind, name)
  return cached_by_key[full] or add_to_cache(full, { key = full, type = 'zset', seen = {}, changed = {} })
end

function list(kind, name)
  local full = key(kind, name)
  return cached_by_key[full] or add_to_cache(full, { key = full, type = 'list', taken = 0, head = nil })
end

function buffered(made)
  made.puts, made.put_count, made.removals, made.removal_count = {}, 0, {}, 0
  return made
end

-- part: commands
-- gives: fetch_from spread
-- needs: call builtins
-- Return stored fields of a hash, false for those that do not exist.
function fetch_from(full, fields)
  if #fields <= CHUNK then return #fields > 0 and call('HMGET', full, unpack(fields)) or {} end
  local found = {}
  for first = 1, #fields, CHUNK do
    local last = min(first + CHUNK - 1, #fields)
    local got = call('HMGET', full, unpack(fields, first, last))
    for i = first, last do found[i] = got[i - first + 1] end
  end
  return found
end

function spread(command, full, arguments, first)
  for from = first or 1, #arguments, CHUNK do
    call(command, full, unpack(arguments, from, min(from + CHUNK - 1, #arguments)))
  end
end

-- part: reads
-- gives: fetch prefetch get
-- needs: call commands
function fetch(from, fields) return fetch_from(from.key, fields) end

-- Read fields of a hash into the cache, many with one command.
function prefetch(from, fields)
  local seen, wanted = from.seen, fields
  if next(seen) ~= nil then
    wanted = {}
    for i = 1, #fields do
      if seen[fields[i]] == nil then wanted[#wanted + 1] = fields[i] end
    end
  end
  local got = fetch(from, wanted)
  for i = 1, #wanted do seen[wanted[i]] = got[i] end
end

-- Return the value that `add` buffered for a field, if it is not written yet.
local function put_before(from, field)
  local puts = from.puts
  for at = from.put_count - 1, 1, -2 do
    if puts[at] == field then return puts[at + 1] end
  end
  return nil
end

-- Return the value of a field, or the score of a member as text, or false.
function get(from, field)
  local value = from.seen[field]
  if value == nil then
    value = from.puts and put_before(from, field)
    if not value then value = call(from.type == 'hash' and 'HGET' or 'ZSCORE', from.key, field) end
    from.seen[field] = value
  end
  return value
end

-- part: writes
-- gives: set add add_score remove
-- Set a value or score; false removes the field or member.
function set(into, field, value)
  into.seen[field] = value
  into.changed[field] = value
end

-- Like `set`, but faster, for buffered keys. A field that `remove` removed must not be added again before the next flush.
-- Give large scores as text, because Lua prints a number with 17 digits each time.
function add(into, field, value)
  if into.changed[field] ~= nil then return set(into, field, value) end
  if into.seen[field] ~= nil then into.seen[field] = value end
  local puts, at = into.puts, into.put_count
  puts[at + 1], puts[at + 2], into.put_count = field, value, at + 2
end

function add_score(into, member, score)
  if into.changed[member] ~= nil then return set(into, member, score) end
  local puts, at = into.puts, into.put_count
  puts[at + 1], puts[at + 2], into.put_count = score, member, at + 2
end

function remove(from, field)
  if from.changed[field] ~= nil then return set(from, field, false) end
  if from.seen[field] ~= nil then from.seen[field] = false end
  local removals, at = from.removals, from.removal_count + 1
  removals[at], from.removal_count = field, at
end

-- part: members
-- gives: members
-- needs: call
-- Return the members of a sorted set by score, with the changes of this call.
function members(from)
  local found, all = {}, call('ZRANGE', from.key, 0, -1)
  local here = {}
  for i = 1, #all do
    here[all[i]] = true
    if from.changed[all[i]] ~= false then found[#found + 1] = all[i] end
  end
  for member, score in pairs(from.changed) do
    if score and not here[member] then found[#found + 1] = member end
  end
  return found
end

-- part: digits
-- needs: int
-- Small numbers as text, each made once: a command prints a number with 17 digits, which costs about 1 us for each job
-- with a lane.
local digits = setmetatable({}, {
  __index = function(made, number)
    made[number] = int(number)
    return made[number]
  end,
})

-- part: lists
-- gives: front shift push
-- needs: call digits
-- Lists are read from the head and grow at the tail; `head` is the first entry, or false if the list is empty.
function front(from)
  if from.head == nil then
    from.head = not from.drained and call('LINDEX', from.key, digits[from.taken])
    if not from.head then
      from.drained = true
      from.head = from.pushed and from.pushed[(from.used or 0) + 1] or false
    end
  end
  return from.head
end

function shift(from)
  local head = front(from)
  if head then
    if from.drained then from.used = (from.used or 0) + 1 else from.taken = from.taken + 1 end
    from.head = nil
  end
  return head
end

function push(into, item)
  local pushed = into.pushed
  if not pushed then
    pushed = {}
    into.pushed = pushed
  end
  pushed[#pushed + 1] = item
  if into.head == false then into.head = nil end
end

-- part: writers
-- gives: writers
writers = {} -- functions that write what other parts have buffered

-- part: past_counts
-- gives: count_removed count_left_end
-- needs: call key writers
-- What the counts of a queue show no more: removed jobs as `enqueued`, and by verdict the ends that jobs have left.
local past_counts = {}

local function count_past(field) past_counts[field] = (past_counts[field] or 0) + 1 end

function count_removed(queue) count_past(queue .. '\31enqueued') end

function count_left_end(queue, state) count_past(queue .. '\31' .. state) end

writers[#writers + 1] = function()
  for field, number in pairs(past_counts) do call('HINCRBY', key('past_counts'), field, number) end
  past_counts = {}
end

-- part: counts
-- gives: tally_of count
-- Changes of the number of jobs by queue and state.
local tallies, totals = {}, {}

function tally_of(queue)
  local tally = tallies[queue]
  if not tally then
    tally = { ready = 0, scheduled = 0, running = 0, waiting = 0, done = 0, dead = 0, cancelled = 0 }
    tallies[queue] = tally
  end
  return tally
end

function count(queue, state, change)
  local tally = tally_of(queue)
  tally[state] = tally[state] + change
end

-- part: write_counts
-- gives: write_tallies total
-- needs: call key counts
function write_tallies()
  for queue, tally in pairs(tallies) do
    for state, change in pairs(tally) do
      local field = queue .. '\31' .. state
      if change ~= 0 then
        totals[field] = call('HINCRBY', key('counts'), field, change)
        tally[state] = 0
      end
    end
  end
end

function total(queue, state)
  local field = queue .. '\31' .. state
  if not totals[field] then totals[field] = tonumber(call('HGET', key('counts'), field) or 0) end
  return totals[field]
end

-- part: forget_empty_queues
-- gives: forget_empty_queues
-- needs: call key counts
-- After `flush`, remove the keys of queues that hold no job any more. Only scripts that remove jobs need it.
function forget_empty_queues()
  for queue, tally in pairs(tallies) do
    local fields, holds = {}, false
    for state in pairs(tally) do fields[#fields + 1] = queue .. '\31' .. state end
    for _, number in ipairs(call('HMGET', key('counts'), unpack(fields))) do holds = holds or number and number ~= '0' end
    if not holds then
      call('HDEL', key('counts'), unpack(fields))
      call('DEL', key('wake', queue))
      if call('ZCARD', key('priorities', queue)) == 0 then call('DEL', key('popped', queue)) end -- else it has stale entries
    end
  end
end

-- part: flush
-- gives: flush
-- needs: call cache commands digits writers write_counts
local function write_pairs(from, put, take_away, score_first)
  local puts, removals, p, r = {}, {}, 0, 0
  for field, value in pairs(from.changed) do
    if value then
      puts[p + 1], puts[p + 2] = score_first and value or field, score_first and field or value
      p = p + 2
    else
      r = r + 1
      removals[r] = field
    end
  end
  if p > 0 then spread(put, from.key, puts) end
  if r > 0 then spread(take_away, from.key, removals) end
  from.changed = {}
end

local function write_list(from)
  if from.taken > 0 then call('LTRIM', from.key, digits[from.taken], '-1') end
  if from.pushed then spread('RPUSH', from.key, from.pushed, (from.used or 0) + 1) end
  from.taken, from.head, from.pushed = 0, nil, nil
  if from.drained then from.used, from.drained = nil, nil end
end

local function write_buffered(from)
  if from.put_count > 0 then spread(from.type == 'hash' and 'HSET' or 'ZADD', from.key, from.puts) end
  if from.removal_count > 0 then spread(from.type == 'hash' and 'HDEL' or 'ZREM', from.key, from.removals) end
  if from.put_count + from.removal_count > 0 then buffered(from) end
end

function flush()
  for i = 1, #cached do
    local from = cached[i]
    if from.puts then write_buffered(from) end
    if from.type == 'list' then
      if from.taken > 0 or from.pushed then write_list(from) end
    elseif next(from.changed) ~= nil then
      if from.type == 'hash' then write_pairs(from, 'HSET', 'HDEL') else write_pairs(from, 'ZADD', 'ZREM', true) end
    end
  end
  for i = 1, #writers do writers[i]() end
  write_tallies()
end

-- part: on_demand
-- needs: key cache
-- A hash that few scripts read: it is cached when it is first read or changed.
local LOADS_ON_DEMAND = {
  __index = function(made, field)
    if field ~= 'seen' and field ~= 'changed' then return nil end
    setmetatable(made, nil)
    made.seen, made.changed = {}, {}
    add_to_cache(made.key, made)
    return made[field]
  end,
}

local function on_demand(kind) return setmetatable({ key = key(kind), type = 'hash' }, LOADS_ON_DEMAND) end

-- part: jobs
-- gives: jobs
-- needs: cache
-- `jobs` comes first: its HSET is the first write of an enqueue, and the one that a full server refuses.
jobs = buffered(hash('jobs'))

-- part: live
-- gives: live
-- needs: cache
live = buffered(hash('live'))

-- part: ended
-- gives: ended
-- needs: cache
ended = buffered(hash('ended'))

-- part: running
-- gives: running
-- needs: cache
running = buffered(zset('running'))

-- part: tries
-- gives: tries
-- needs: on_demand
tries = on_demand('tries')

-- part: tombstones
-- gives: tombstones
-- needs: on_demand
tombstones = on_demand('tombstones')

-- part: uniques
-- gives: uniques
-- needs: on_demand
uniques = on_demand('uniques')

-- part: lane_slots
-- gives: lane_slots
-- needs: on_demand
lane_slots = on_demand('lane_slots')

-- part: delivered
-- gives: delivered
-- needs: on_demand
delivered = on_demand('delivered')

-- part: progress
-- gives: progress
-- needs: on_demand
progress = on_demand('progress')

-- part: stale
-- gives: stale
-- needs: on_demand
stale = on_demand('stale')

-- part: watched
-- gives: watched
-- needs: on_demand
watched = on_demand('watched')

-- part: arrivals
-- gives: arrival
-- needs: call key int writers
-- Numbers that rise by one, so that jobs with the same time keep their order.
local arrivals, arrived

function arrival()
  arrivals = (arrivals or tonumber(call('HGET', key('serials'), 'arrivals') or 0)) + 1
  arrived = true
  return arrivals
end

writers[#writers + 1] = function()
  if arrived then call('HSET', key('serials'), 'arrivals', int(arrivals)) end
  arrived = false
end
