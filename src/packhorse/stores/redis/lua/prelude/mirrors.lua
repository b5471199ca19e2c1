-- Mirrors of stored hashes, sorted sets and lists. A verb reads through them and changes them; `flush` writes what was
-- changed, many fields a command.
-- gives: hash zset list fetch_from fetch prefetch get set add add_score remove busy members front shift push spread
-- gives: writers tally_of count write_tallies forget_empty_queues total flush arrival jobs live ends leases tries tombs uniques held
-- gives: delivered progress stale watched
local mirrors, mirror_of = {}, {}

local function keep_mirror(full, made)
  mirror_of[full] = made
  mirrors[#mirrors + 1] = made
  return made
end

function hash(kind, name)
  local full = key(kind, name)
  return mirror_of[full] or keep_mirror(full, { key = full, type = 'hash', seen = {}, changed = {} })
end

function zset(kind, name)
  local full = key(kind, name)
  return mirror_of[full] or keep_mirror(full, { key = full, type = 'zset', seen = {}, changed = {} })
end

function list(kind, name)
  local full = key(kind, name)
  return mirror_of[full] or keep_mirror(full, { key = full, type = 'list', taken = 0, head = nil })
end

-- The fields of a hash as they are stored, false where there is none.
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

function fetch(from, fields) return fetch_from(from.key, fields) end

-- Brings fields of a hash near with one command for many.
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

-- What was put into a busy mirror and not yet written; looked for only where it is not known otherwise.
local function put_before(from, field)
  local puts = from.puts
  for at = from.put_count - 1, 1, -2 do
    if puts[at] == field then return puts[at + 1] end
  end
  return nil
end

-- The value of a field, the score of a member as text, or false.
function get(from, field)
  local value = from.seen[field]
  if value == nil then
    value = from.puts and put_before(from, field)
    if not value then value = call(from.type == 'hash' and 'HGET' or 'ZSCORE', from.key, field) end
    from.seen[field] = value
  end
  return value
end

-- A value or score to be written; false takes the field or member away.
function set(into, field, value)
  into.seen[field] = value
  into.changed[field] = value
end

-- The same, quicker, for the fields of a busy mirror. What was taken away with `remove` must not be added again before
-- the next flush. Large scores are given as text: Lua would print them with 17 digits for each.
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

function busy(made)
  made.puts, made.put_count, made.removals, made.removal_count = {}, 0, {}, 0
  return made
end

-- Members of a sorted set by score, with what this call has changed so far.
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

-- Small numbers as text, each made once: a command prints every number it is given with 17 digits, about 1 us a job
-- with a lane.
local digits = setmetatable({}, {
  __index = function(made, number)
    made[number] = int(number)
    return made[number]
  end,
})

-- Lists that are taken from at the head and grow at the tail; `head` is what stands first, false if nothing does.
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

function spread(command, full, arguments, first)
  for from = first or 1, #arguments, CHUNK do
    call(command, full, unpack(arguments, from, min(from + CHUNK - 1, #arguments)))
  end
end

local function write_pairs(from, put, remove, score_first)
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
  if r > 0 then spread(remove, from.key, removals) end
  from.changed = {}
end

local function write_list(from)
  if from.taken > 0 then call('LTRIM', from.key, digits[from.taken], '-1') end
  if from.pushed then spread('RPUSH', from.key, from.pushed, (from.used or 0) + 1) end
  from.taken, from.head, from.pushed = 0, nil, nil
  if from.drained then from.used, from.drained = nil, nil end
end

local function write_busy(from)
  if from.put_count > 0 then spread(from.type == 'hash' and 'HSET' or 'ZADD', from.key, from.puts) end
  if from.removal_count > 0 then spread(from.type == 'hash' and 'HDEL' or 'ZREM', from.key, from.removals) end
  if from.put_count + from.removal_count > 0 then busy(from) end
end

writers = {} -- what else is gathered, each written by its own function

-- Jobs by queue and state.
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

-- After `flush`: removes what is kept for queues of this call that hold no job any more. Only what removes jobs needs it.
function forget_empty_queues()
  for queue, tally in pairs(tallies) do
    local fields, holds = {}, false
    for state in pairs(tally) do fields[#fields + 1] = queue .. '\31' .. state end
    for _, number in ipairs(call('HMGET', key('counts'), unpack(fields))) do holds = holds or number and number ~= '0' end
    if not holds then
      call('HDEL', key('counts'), unpack(fields))
      call('DEL', key('wake', queue))
      if call('ZCARD', key('priorities', queue)) == 0 then call('DEL', key('popped', queue)) end -- else with stale entries
    end
  end
end

function total(queue, state)
  local field = queue .. '\31' .. state
  if not totals[field] then totals[field] = tonumber(call('HGET', key('counts'), field) or 0) end
  return totals[field]
end

function flush()
  for i = 1, #mirrors do
    local from = mirrors[i]
    if from.puts then write_busy(from) end
    if from.type == 'list' then
      if from.taken > 0 or from.pushed then write_list(from) end
    elseif next(from.changed) ~= nil then
      if from.type == 'hash' then write_pairs(from, 'HSET', 'HDEL') else write_pairs(from, 'ZADD', 'ZREM', true) end
    end
  end
  for i = 1, #writers do writers[i]() end
  write_tallies()
end

-- A hash that few calls look at; it becomes a mirror when one does.
local UNTOUCHED = {
  __index = function(made, field)
    if field ~= 'seen' and field ~= 'changed' then return nil end
    setmetatable(made, nil)
    made.seen, made.changed = {}, {}
    keep_mirror(made.key, made)
    return made[field]
  end,
}

local function rare(kind) return setmetatable({ key = key(kind), type = 'hash' }, UNTOUCHED) end

-- `jobs` stands first: its HSET is the first write of an enqueue, and the one that a full server refuses.
jobs = busy(hash('jobs'))
live = busy(hash('live'))
ends = busy(hash('ends'))
leases = busy(zset('leases'))
tries = rare('tries')
tombs = rare('tombs')
uniques = rare('uniques')
held = rare('held')
delivered = rare('delivered')
progress = rare('progress')
stale = rare('stale')
watched = rare('watched')

-- Numbers that rise by one for every arrival, so that what has the same moment keeps its order.
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
