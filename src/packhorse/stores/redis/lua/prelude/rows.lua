-- How a job is packed. The record, written once, has two forms:
--   '1' enqueued(8) part
--   '2' enqueued(8) due(8) arrival(4) part, for jobs that may not be ready at first.
-- The part is made by the client: head, headers, payload, and the last eight bytes of the id. The head is what scripts
-- read: fields between \31, ended by \30 and a check letter:
--   flag 'p' (plain) or 'd' (plain but due later) and queue, priority, task, tenant, length of headers; or
--   flag 'x', or 's' with a key unique until started, and lane, lane limit, queue, priority, task, tenant, length of
--   headers, parent (hex), unique key, its scope, its window, children.
-- The live row, of a job that is leased or whose state is not the one its record tells:
--   token(16) worker(16) place mark attempt(4) lost(2) step(4) head [tail letter]
--   places: l leased (tail: claimed(8)), r ready (tail: since(8)), s scheduled (tail: arrival(4)), w waiting (tail: see `wait`);
--   the mark is a digit: 1 holds a slot of its lane, 2 is to be cancelled, 3 both.
-- A job without live row and ended row was never leased and is ready or scheduled as its record tells.
-- The row of an ended job: verdict token(16) finished(8) attempt(4) lost(2) group(4) reason \31 ['=' result] position(4).
--
-- All of these end in bytes that differ from job to job. Lua keeps one copy of equal strings and hashes the last byte and
-- every n-th before it. Strings that differ only in other bytes are compared one by one, which took half of the time of
-- an enqueue. constants.lua names the offsets.

-- part: heads
-- needs: builtins counts
local PLAIN = '^.([^\31]*)\31(%d+)\31([^\31]*)\31'
local SPECIAL = '^([^\31]*)\31(%d+)\31([^\31]*)\31[^\31]*\31%d+\31(%x*)\31([^\31]*)\31(.?)\31(%d+)\31(%d+)$'
local PLACES = { [RUNNING_BYTE] = RUNNING, [READY_BYTE] = READY, [SCHEDULED_BYTE] = SCHEDULED, [WAITING_BYTE] = WAITING }

-- Each head is parsed once in a call. Tables cost most in a script, so a head with a lane holds little and shares the rest
-- with other heads that differ only in the lane.
local SPECIAL_FLAGS = { [FLAG_SPECIAL] = true, [FLAG_UNIQUE_UNTIL_STARTED] = true }
local shared, heads = {}, {}

local function shared_by(text)
  local found = shared[text]
  if not found then
    local queue, priority, task, parent, unique, scope, window, children = match(text, SPECIAL)
    found = {
      flag = 'x', queue = queue, priority = priority, task = task, ready_list = queue .. '\31' .. priority, parent = parent,
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
    text = text, lane = lane, lane_key = common.queue .. '\31' .. lane, limit = sub(text, first + 1, second - 1),
    lane_list = false,
  }, common.metatable)
end

local function plain_head(text)
  local queue, priority, task = match(text, PLAIN)
  local head = {
    text = text, flag = sub(text, 1, 1), queue = queue, priority = priority, task = task, plain = true,
    ready_list = queue .. '\31' .. priority, lane = '', unique = '', children = 0, tally = tally_of(queue),
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

-- Return the head that begins at this byte of a text.
local function head_from(text, first)
  local head = sub(text, first, find(text, HEAD_STOP, first, true) + 1)
  return heads[head] or head_of(head)
end

-- part: records
-- gives: head_text_in head_in
-- needs: builtins heads
-- A record of a newer form, or a broken one, has an unreadable head: it gets that of a queue that no worker serves.
local UNREADABLE = 'p?\0310\31?\31\0310\30!'

function head_text_in(record)
  local first = byte(record) == FORM_READY and READY_HEAD_AT or LATER_HEAD_AT
  local stop = find(record, HEAD_STOP, first, true)
  local text = stop and sub(record, first, stop + 1)
  local form = text and SPECIAL_FLAGS[byte(text)] and '^.[^\31]*\31%d+\31[^\31]*\31%d+\31' or PLAIN
  return text and match(text, form) and text or UNREADABLE
end

function head_in(record) return head_of(head_text_in(record)) end

-- part: claimed_records
-- gives: bytes_in unique_until_started has_lane since_in attempt_in uncharged
-- needs: builtins heads
-- Return how many bytes of headers and payload a record has.
function bytes_in(record)
  local first = byte(record) == FORM_READY and READY_HEAD_AT or LATER_HEAD_AT
  return #record - RECORD_REST - (find(record, HEAD_STOP, first, true) or first)
end

function unique_until_started(record)
  return byte(record) == FORM_LATER and byte(record, LATER_HEAD_AT) == FLAG_UNIQUE_UNTIL_STARTED
end

function has_lane(head_text) return SPECIAL_FLAGS[byte(head_text)] and byte(head_text, 2) ~= SEPARATOR_BYTE end

function since_in(text) return sub(text, TAIL_MOMENT_AT, TAIL_END) end

function attempt_in(counters) return (unpacked('>I4', counters)) end
-- Return the counters without the last attempt.
function uncharged(counters) return pack('>I4', max(attempt_in(counters) - 1, 0)) .. sub(counters, LOST_AT, LOST_END) end

-- part: head_in_part
-- gives: head_in_part
-- needs: heads
function head_in_part(part) return head_from(part, 1) end

-- part: states
-- gives: STATES
STATES = {
  [RUNNING] = 'running', [READY] = 'ready', [SCHEDULED] = 'scheduled', [WAITING] = 'waiting',
  [DONE] = 'done', [DEAD] = 'dead', [CANCELLED] = 'cancelled',
}

-- part: live_rows
-- gives: row_of
-- needs: builtins heads
-- Parse a live row. Plain jobs of one claim have equal rows, so each different row is parsed once; of other rows the part
-- before the head is.
local read, fronts = {}, {}

local function front_of(text)
  local packed = sub(text, 1, STEP_END)
  local found = fronts[packed]
  if not found then
    local mark = byte(packed, MARK_AT) - MARK_NONE
    found = {
      token = sub(packed, 1, TOKEN_END), place = PLACES[byte(packed, PLACE_AT)], slot = mark % 2 == 1, cancelling = mark > 1,
      counters = sub(packed, COUNTERS_AT, COUNTERS_END), proof = false,
    }
    found.front, found.metatable = found, { __index = found }
    fronts[packed] = found
  end
  return found
end

function row_of(text)
  local row = read[text]
  if row then return row end
  local head = head_from(text, HEAD_AT)
  row = setmetatable({ text = text, head = head }, front_of(text).metatable)
  if head.plain then read[text] = row end
  return row
end

-- part: write_live
-- gives: write_live
-- needs: builtins writes live
local NO_HOLDER = string.rep('\0', 32)

-- Write the live row of a job that is not leased.
function write_live(id, head, place, slot, counters, tail)
  local letter = sub(head.text, -1)
  add(live, id, NO_HOLDER .. place .. (slot and '1' or '0') .. counters .. NO_STEP .. head.text .. tail .. letter)
end

-- part: tail_of
-- gives: tail_of
-- needs: builtins
function tail_of(row) return sub(row.text, find(row.text, HEAD_STOP, HEAD_AT, true) + 2, TAIL_END) end

-- part: parts_of_rows
-- gives: head_in_row counters_in worker_in step_in
-- needs: builtins heads
function head_in_row(text) return head_from(text, HEAD_AT) end

function counters_in(text) return sub(text, COUNTERS_AT, COUNTERS_END) end

function worker_in(text) return sub(text, WORKER_AT, WORKER_END) end

function step_in(text) return (unpacked('>I4', sub(text, STEP_AT, STEP_END))) end

-- part: leased
-- gives: leased
-- needs: reads live live_rows
-- Return the live row of a job that is leased with this token, or nil.
function leased(id, token)
  local text = get(live, id)
  local row = text and row_of(text)
  if row and row.token == token and row.place == RUNNING then return row end
  return nil
end

-- part: scheduled_member
-- gives: scheduled_member
-- needs: builtins
-- Return the member of its queue's `scheduled` for a job that was never leased.
function scheduled_member(id, record) return sub(record, ARRIVAL_AT, ARRIVAL_END) .. id end

-- part: moments
-- gives: enqueued_in due_in
-- needs: builtins
-- Return when a job was enqueued, and when it is due by its record.
function enqueued_in(record)
  return #record < ENQUEUED_END and 0 or (unpacked('>d', sub(record, ENQUEUED_AT, ENQUEUED_END)))
end

function due_in(record)
  return (byte(record) == FORM_READY or #record < DUE_END) and 0 or (unpacked('>d', sub(record, DUE_AT, DUE_END)))
end

-- part: tries_of_jobs
-- gives: remember_try settled_by
-- needs: builtins now reads writes ended tries tombstones
-- Store a try: token(16) attempt(4) at(8) length(4) failure. The newest ten that failed and ten that did not are kept.
local TRIES_KEPT = 10

function remember_try(id, token, counters, failure)
  local all, kept = {}, { [true] = 0, [false] = 0 }
  local packed, at = get(tries, id) or '', 1
  while at < #packed do
    local stop = at + TRY_BYTES + unpacked('>I4', sub(packed, at + TRY_LENGTH_FROM, at + TRY_LENGTH_TO))
    local row = sub(packed, at, stop - 1)
    all[#all + 1] = row
    kept[#row > TRY_BYTES] = kept[#row > TRY_BYTES] + 1
    at = stop
  end
  all[#all + 1] = token .. sub(counters, 1, 4) .. stamp .. pack('>I4', #failure) .. failure
  local failed = failure ~= ''
  if kept[failed] >= TRIES_KEPT then
    for i = 1, #all do
      if (#all[i] > TRY_BYTES) == failed then
        table.remove(all, i)
        break
      end
    end
  end
  set(tries, id, concat(all))
end

-- Return whether this token settled this job before.
function settled_by(id, token)
  local row = get(ended, id)
  if row and sub(row, ENDED_TOKEN_AT, ENDED_TOKEN_END) == token then return true end
  local tombstone = get(tombstones, id)
  if tombstone and sub(tombstone, 1, TOKEN_END) == token then return true end
  local packed, at = get(tries, id) or '', 1
  while at < #packed do
    if sub(packed, at, at + TOKEN_END - 1) == token then return true end
    at = at + TRY_BYTES + unpacked('>I4', sub(packed, at + TRY_LENGTH_FROM, at + TRY_LENGTH_TO))
  end
  return false
end
