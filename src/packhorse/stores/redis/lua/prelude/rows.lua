-- How a job is packed. The record, written once, has two forms:
--   '1' born(8) part
--   '2' born(8) due(8) arrival(4) part, for what may stand elsewhere than ready at first.
-- The part is made by the client: head, headers, payload, and the last eight bytes of the id. The head is what scripts
-- read: fields between \31, ended by \30 and a check letter:
--   flag 'p' (plain) or 'd' (plain but due later) and queue, priority, task, tenant, length of headers; or
--   flag 'x', or 's' with a key unique until started, and lane, lane limit, queue, priority, task, tenant, length of
--   headers, parent (hex), unique key, its scope, its window, children.
-- The live row, for a job that is leased or does not stand where its record alone says:
--   token(16) worker(16) place mark attempt(4) lost(2) step(4) head [tail letter]
--   places: l leased (tail: claimed(8)), r ready (tail: since(8)), s scheduled (tail: arrival(4)), w waiting (tail: see `wait`);
--   the mark is a digit: 1 holds a slot of its lane, 2 is to be cancelled, 3 both.
-- A job without a live row and without an end was never leased and is ready or scheduled as its record says.
-- The row of an end: verdict token(16) finished(8) attempt(4) lost(2) shelf(4) reason \31 ['=' result] position(4).
--
-- All of these end in bytes that differ from job to job. Lua keeps one copy of equal strings and looks for it by the
-- last byte and every n-th before it: strings that differ only in between are searched for one by one, which took
-- half of the time of an enqueue.
-- gives: NO_TOKEN NEVER NO_STEP STATES head_in head_text_in head_in_part head_in_row laned free_when_started stand
-- gives: row_of tail_of counters_in since_in worker_in step_in leased attempt_in uncharged fresh_member born_in due_in
-- gives: remember settled_by bytes_in
local NOBODY = string.rep('\0', 32)
NO_TOKEN = string.rep('\0', 16)
NEVER = string.rep('\0', 6) -- no attempt, no loss
NO_STEP = string.rep('\0', 4)
local PLAIN = '^.([^\31]*)\31(%d+)\31([^\31]*)\31'
local SPECIAL = '^([^\31]*)\31(%d+)\31([^\31]*)\31[^\31]*\31%d+\31(%x*)\31([^\31]*)\31(.?)\31(%d+)\31(%d+)$'
STATES = { l = 'running', r = 'ready', s = 'scheduled', w = 'waiting', d = 'done', k = 'dead', c = 'cancelled' }

local PLACES = { [108] = 'l', [114] = 'r', [115] = 's', [119] = 'w' }

-- Heads are read once a call. Tables are what costs most in a script, so a head with a lane holds little of its own
-- and has the rest from what it shares with others of its kind.
local SPECIAL_FLAGS = { [120] = true, [115] = true }
local shared, heads = {}, {}

local function shared_by(text)
  local found = shared[text]
  if not found then
    local queue, priority, task, parent, unique, scope, window, children = match(text, SPECIAL)
    found = {
      flag = 'x', queue = queue, priority = priority, task = task, line = queue .. '\31' .. priority, parent = parent,
      unique = unique, scope = scope, window = tonumber(window), children = tonumber(children), tally = tally_of(queue),
    }
    found.shared, found.metatable = found, { __index = found }
    shared[text] = found
  end
  return found
end

local function special_head(text)
  local first = find(text, '\31', 2, true)
  local second = find(text, '\31', first + 1, true)
  local common, lane = shared_by(sub(text, second + 1, -3)), sub(text, 2, first - 1)
  return setmetatable({
    text = text, lane = lane, turn = common.queue .. '\31' .. lane, limit = sub(text, first + 1, second - 1),
    behind = false,
  }, common.metatable)
end

local function plain_head(text)
  local queue, priority, task = match(text, PLAIN)
  local head = {
    text = text, flag = sub(text, 1, 1), queue = queue, priority = priority, task = task, plain = true,
    line = queue .. '\31' .. priority, lane = '', unique = '', children = 0, tally = tally_of(queue),
  }
  head.shared = head
  return head
end

local function head_of(text)
  local head = heads[text]
  if not head then
    head = SPECIAL_FLAGS[byte(text)] and special_head(text) or plain_head(text)
    heads[text] = head
  end
  return head
end

-- The head in a text that has one from this byte on.
local function head_from(text, first)
  local head = sub(text, first, find(text, '\30', first, true) + 1)
  return heads[head] or head_of(head)
end

-- A record of a newer form, or a broken one, has no head that can be read: it gets one of a queue that nobody serves.
local UNREADABLE = 'p?\0310\31?\31\0310\30!'
function head_text_in(record)
  local first = byte(record) == 49 and 10 or 22
  local stop = find(record, '\30', first, true)
  local text = stop and sub(record, first, stop + 1)
  if not text or not match(text, SPECIAL_FLAGS[byte(text)] and '^.[^\31]*\31%d+\31[^\31]*\31%d+\31' or PLAIN) then return UNREADABLE end
  return text
end

-- How many bytes of headers and payload a record has.
function bytes_in(record)
  local first = byte(record) == 49 and 10 or 22
  return #record - 9 - (find(record, '\30', first, true) or first)
end

function head_in(record) return head_of(head_text_in(record)) end
function free_when_started(record) return byte(record) == 50 and byte(record, 22) == 115 end
function laned(head_text) return SPECIAL_FLAGS[byte(head_text)] and byte(head_text, 2) ~= 31 end
function head_in_part(part) return head_from(part, 1) end
function head_in_row(text) return head_from(text, 45) end

-- Writes the live row of a job that nobody holds.
function stand(id, head, place, slot, counters, tail)
  local letter = sub(head.text, -1)
  add(live, id, NOBODY .. place .. (slot and '1' or '0') .. counters .. NO_STEP .. head.text .. tail .. letter)
end

-- Reads a live row. Those of plain jobs of one claim are alike, so each different one is read once; of the others
-- all that stands before the head is.
local read, fronts = {}, {}
local function front_of(text)
  local packed = sub(text, 1, 44)
  local found = fronts[packed]
  if not found then
    local mark = byte(packed, 34) - 48
    found = {
      token = sub(packed, 1, 16), place = PLACES[byte(packed, 33)], slot = mark % 2 == 1, cancelling = mark > 1,
      counters = sub(packed, 35, 40), proof = false,
    }
    found.front, found.metatable = found, { __index = found }
    fronts[packed] = found
  end
  return found
end

function row_of(text)
  local row = read[text]
  if row then return row end
  local head = head_from(text, 45)
  row = setmetatable({ text = text, head = head }, front_of(text).metatable)
  if head.plain then read[text] = row end
  return row
end

function tail_of(row) return sub(row.text, find(row.text, '\30', 45, true) + 2, -2) end
function counters_in(text) return sub(text, 35, 40) end
function since_in(text) return sub(text, -9, -2) end
function worker_in(text) return sub(text, 17, 32) end
function step_in(text) return (unpacked('>I4', sub(text, 41, 44))) end

-- The live row of a job that was leased with this token, or nil.
function leased(id, token)
  local text = get(live, id)
  local row = text and row_of(text)
  if row and row.token == token and row.place == 'l' then return row end
  return nil
end

function attempt_in(counters) return (unpacked('>I4', counters)) end

-- A try that is not to count.
function uncharged(counters) return pack('>I4', max(attempt_in(counters) - 1, 0)) .. sub(counters, 5, 6) end

-- Under which member of its queue's `due` a job stands that was never leased.
function fresh_member(id, record) return sub(record, 18, 21) .. id end

-- When a job was enqueued, and when it is due by its record.
function born_in(record) return #record < 9 and 0 or (unpacked('>d', sub(record, 2, 9))) end
function due_in(record) return (byte(record) == 49 or #record < 17) and 0 or (unpacked('>d', sub(record, 10, 17))) end

-- The newest tries of a job, each token(16) attempt(4) at(8) length(4) failure: ten that failed, ten that did not.
local KEPT = 10
function remember(id, token, counters, failure)
  local rows, kept = {}, { [true] = 0, [false] = 0 }
  local packed, at = get(tries, id) or '', 1
  while at < #packed do
    local stop = at + 32 + unpacked('>I4', sub(packed, at + 28, at + 31))
    local row = sub(packed, at, stop - 1)
    rows[#rows + 1] = row
    kept[#row > 32] = kept[#row > 32] + 1
    at = stop
  end
  rows[#rows + 1] = token .. sub(counters, 1, 4) .. stamp .. pack('>I4', #failure) .. failure
  local failed = failure ~= ''
  if kept[failed] >= KEPT then
    for i = 1, #rows do
      if (#rows[i] > 32) == failed then
        table.remove(rows, i)
        break
      end
    end
  end
  set(tries, id, concat(rows))
end

-- Whether this token settled this job before.
function settled_by(id, token)
  local ended = get(ends, id)
  if ended and sub(ended, 2, 17) == token then return true end
  local tomb = get(tombs, id)
  if tomb and sub(tomb, 1, 16) == token then return true end
  local packed, at = get(tries, id) or '', 1
  while at < #packed do
    if sub(packed, at, at + 15) == token then return true end
    at = at + 32 + unpacked('>I4', sub(packed, at + 28, at + 31))
  end
  return false
end
