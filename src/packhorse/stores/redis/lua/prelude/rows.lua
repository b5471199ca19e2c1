-- How a job is packed. The record, written once:
--   '1' head headers payload [due(8) arrival(4)] born(8); due and arrival are left out where the flag is 'p'.
-- The head is what scripts read, ended by \30 with fields between \31:
--   flag and queue, priority, task, tenant, length of headers, and for the flag 'x' also
--   lane, lane limit, parent (hex), unique key, its scope, its window, children.
-- Flags: 'p' plain, 'd' plain but due later, 'x' anything else.
-- The live row, for a job that is leased or does not stand where its record alone says:
--   token(16) worker(16) place mark attempt(4) lost(2) step(4) head tail
--   places: l leased, r ready (tail: since(8)), s scheduled (tail: arrival(4)), w waiting (tail: see `wait`);
--   the mark is a digit: 1 holds a slot of its lane, 2 is to be cancelled, 3 both.
-- A job without a live row and without an end was never leased and is ready or scheduled as its record says.
-- The row of an end: verdict token(16) finished(8) attempt(4) lost(2) shelf(4) position(4) reason \31 ['=' result].
-- gives: NO_TOKEN NEVER NO_STEP STATES head_of head_in standing stand row_of head_in_row counters_in worker_in step_in leased attempt_in
-- gives: uncharged fresh_member due_in remember settled_by
local NOBODY = string.rep('\0', 32)
NO_TOKEN = string.rep('\0', 16)
NEVER = string.rep('\0', 6) -- no attempt, no loss
NO_STEP = string.rep('\0', 4)
local COMMON = '^(.)([^\31]*)\31(%d+)\31([^\31]*)\31'
local SPECIAL = '^(.[^\31]*\31%d+\31[^\31]*\31[^\31]*\31%d+)\31([^\31]*)\31(%d+)\31([^\31]*)\31([^\31]*)\31(.*)\30'
local USUAL = '\0310\0310' -- no scope, window or children
STATES = { l = 'running', r = 'ready', s = 'scheduled', w = 'waiting', d = 'done', k = 'dead', c = 'cancelled' }

local PLACES = { [108] = 'l', [114] = 'r', [115] = 's', [119] = 'w' }

-- Heads are read once a call. Tables are what costs most in a script, so a head with a lane holds little of its own
-- and has the rest from what all heads of its queue, priority and task have in common.
local commons, heads = {}, {}

local function common_of(text)
  local common = commons[text]
  if not common then
    local flag, queue, priority, task = match(text, COMMON)
    common = {
      flag = flag, queue = queue, priority = priority, task = task, line = queue .. '\31' .. priority, plain = flag ~= 'x',
      lane = '', parent = '', unique = '', scope = '', window = 0, children = 0, tally = tally_of(queue),
    }
    common.common, common.for_heads = common, { __index = common }
    commons[text] = common
  end
  return common
end

function head_of(text)
  local head = heads[text]
  if head then return head end
  if byte(text) == 120 then
    local first, lane, limit, parent, unique, rest = match(text, SPECIAL)
    local common = common_of(first .. '\31')
    head = { text = text, lane = lane, turn = common.queue .. '\31' .. lane, limit = limit, behind = false, fresh = false }
    if rest ~= USUAL or parent ~= '' or unique ~= '' then
      local scope, window, children = match(rest, '^(.?)\31(%d+)\31(%d+)$')
      head.parent, head.unique, head.scope = parent, unique, scope
      head.window, head.children = tonumber(window), tonumber(children)
    end
    setmetatable(head, common.for_heads)
  else
    head = common_of(text)
    head.text = text
  end
  heads[text] = head
  return head
end

function head_in(record)
  local text = sub(record, 2, find(record, '\30', 3, true))
  return heads[text] or head_of(text)
end

-- The live row of a job that nobody holds.
function standing(head, place, slot, counters, tail)
  return NOBODY .. place .. (slot and '1' or '0') .. counters .. NO_STEP .. head.text .. tail
end

function stand(id, head, place, slot, counters, tail)
  add(live, id, standing(head, place, slot, counters, tail))
end

-- Reads a live row. Those of plain jobs of one claim are alike, so each different one is read once.
local read = {}
function row_of(text)
  local row = read[text]
  if row then return row end
  local stop, mark = find(text, '\30', 46, true), byte(text, 34) - 48
  row = {
    text = text, token = sub(text, 1, 16), place = PLACES[byte(text, 33)], slot = mark % 2 == 1, cancelling = mark > 1,
    counters = sub(text, 35, 40), head = head_of(sub(text, 45, stop)), tail = stop < #text and sub(text, stop + 1) or '',
  }
  if row.head.plain then read[text] = row end
  return row
end

function head_in_row(text) return head_of(sub(text, 45, find(text, '\30', 46, true))) end
function counters_in(text) return sub(text, 35, 40) end
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
function fresh_member(id, record) return sub(record, -12, -9) .. id end

-- When a job is due by its record.
function due_in(head, record)
  if head.flag == 'p' then return 0 end
  return (unpacked('>d', sub(record, -20, -13)))
end

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
