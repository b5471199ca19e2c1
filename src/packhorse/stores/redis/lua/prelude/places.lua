-- Moving jobs between ready, due and waits. A lane's slot is taken when a job becomes ready and kept until it ends.
-- gives: any_stale pass_stale woken schedule wait why behind admit ask go_on let_go hand_on
-- gives: come_due came_due all_came_due withdraw wait_again
local MOVED = 500 -- scheduled jobs made ready a call and queue
local MOVED_BYTES, FIRST_LOOK = 4194304, 10 -- and of their records, which are read whole for their heads

-- Entries are never searched for in lists: one that is no longer good is counted here under its list and id. Lists
-- are taken from at the head and grow at the tail, so of equal entries the first ones are the stale ones.
local function leave_stale(line, id)
  local field = line .. '\31' .. id
  set(stale, field, int((get(stale, field) or 0) + 1))
  stale.some = true
end

function any_stale()
  if stale.some == nil then stale.some = call('HLEN', stale.key) > 0 end
  return stale.some
end

-- Whether the entry just met at the head of a list is stale; it is then forgotten, for it will be taken out.
function pass_stale(line, id)
  if not any_stale() then return false end
  local field = line .. '\31' .. id
  local left = tonumber(get(stale, field) or 0)
  if left == 0 then return false end
  set(stale, field, left > 1 and int(left - 1) or false)
  return true
end

local lines = {}
woken = {}

local function ready(id, head)
  local line = lines[head.line]
  if not line then
    come_due(head.queue)
    line = lines[head.line] or { queue = head.queue, priority = head.priority, count = 0 }
    lines[head.line] = line
    woken[head.queue] = true
  end
  line.count = line.count + 1
  line[line.count] = id
end

writers[#writers + 1] = function()
  for name, line in pairs(lines) do
    call('ZADD', key('priorities', line.queue), line.priority, line.priority)
    spread('RPUSH', key('ready', name), line)
    count(line.queue, 'ready', line.count)
  end
  lines = {}
end

function schedule(id, head, due, slot, counters)
  local order = pack('>I4', arrival() % 4294967296)
  stand(id, head, 's', slot, counters, order)
  set(zset('due', head.queue), order .. id, int(due))
  count(head.queue, 'scheduled', 1)
end

-- All that wait stand in order of arrival by queue; those that may be released also by reason, by reason and task,
-- and by the record they wait for.
local waits = {}
local function waits_of(queue)
  local waiting = waits[queue]
  if not waiting then
    waiting = busy(zset('waits', queue))
    waits[queue] = waiting
  end
  return waiting
end

local function stand_waiting(id, head, reason, on, order)
  set(waits_of(head.queue), id, order)
  count(head.queue, 'waiting', order and 1 or -1)
  if reason == 'lane' or reason == 'children' then return end
  set(zset('reasons', reason), id, order)
  set(zset('reasons', reason .. '\31' .. head.task), id, order)
  if reason == 'signal' then set(zset('on', on), id, order) end
end

-- `about` is: children to wait for \31 version to be passed \31 kind \31 key of a record \31 detail.
function wait(id, head, reason, slot, counters, about)
  stand(id, head, 'w', slot, counters, stamp .. reason .. '\31' .. about)
  stand_waiting(id, head, reason, match(about, '^[^\31]*\31[^\31]*\31([^\31]*\31[^\31]*)'), arrival())
end

-- Why a job waits: reason, children, version, kind and key.
function why(row) return match(sub(tail_of(row), 9), '^([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)') end

-- Back to where those that wait stand; it is counted there already.
function wait_again(id, row)
  local reason, _, _, kind, name = why(row)
  stand_waiting(id, row.head, reason, kind .. '\31' .. name, arrival())
  count(row.head.queue, 'waiting', -1)
end

local function unwait(id, row)
  local reason, _, _, kind, name = why(row)
  stand_waiting(id, row.head, reason, kind .. '\31' .. name, false)
  return reason
end

-- Those behind a lane. Stale entries never stay at the head, so a list that is there has somebody waiting.
function behind(head)
  local waiting = head.behind
  if not waiting then
    waiting = list('lane', head.turn)
    head.behind = waiting
  end
  return waiting
end

local function pass_stale_heads(head)
  if not any_stale() then return end
  local waiting = behind(head)
  while front(waiting) and pass_stale('lane:' .. head.turn, front(waiting)) do shift(waiting) end
end

local BEHIND = stamp .. 'lane\31\31\31\31\31'
local function line_up(id, head, counters)
  stand(id, head, 'w', false, counters or NEVER, BEHIND)
  add_score(waits_of(head.queue), id, arrival())
  head.tally.waiting = head.tally.waiting + 1
  push(behind(head), id)
end

-- A job whose moment has come takes a slot of its lane and is ready, or waits behind the others. Without counters it
-- was never leased, and needs no live row while `since` is the moment its record tells.
function admit(id, head, since, counters)
  local slot = head.lane ~= ''
  if slot then
    come_due(head.queue)
    local taken = tonumber(get(held, head.turn) or 0)
    if taken > 0 and (taken >= tonumber(head.limit) or front(behind(head))) then return line_up(id, head, counters) end
    set(held, head.turn, int(taken + 1))
  end
  if counters then stand(id, head, 'r', slot, counters, since) end
  ready(id, head)
end

-- A job that asks its lane now. If not all that came due before it can be moved in this call, it comes due after them.
function ask(id, head, since, counters)
  if head.lane ~= '' and not all_came_due(head.queue) then return schedule(id, head, now, false, counters or NEVER) end
  admit(id, head, since, counters)
end

-- A job that may go on: it keeps the slot it has, and asks for one otherwise, behind those that came due before.
function go_on(id, head, slot, counters, since)
  if head.lane ~= '' and not slot then return ask(id, head, since, counters) end
  stand(id, head, 'r', slot, counters, since)
  ready(id, head)
end

-- A job that waits no longer: on its way, or scheduled if it is due later and was never run.
function let_go(id, row)
  unwait(id, row)
  local record = get(jobs, id)
  local due = record and due_in(record) or 0
  if due > now and not get(tries, id) then
    schedule(id, row.head, due, row.slot, row.counters)
  else
    go_on(id, row.head, row.slot, row.counters, stamp)
  end
end

-- The end of a laned job gives its slot to the first behind the lane, or back.
function hand_on(head)
  local id = shift(behind(head))
  local text = id and get(live, id)
  if id then pass_stale_heads(head) end
  if not text then
    local taken = tonumber(get(held, head.turn) or 0) - 1
    set(held, head.turn, taken > 0 and int(taken))
    return
  end
  local next_head = head_in_row(text)
  remove(waits_of(head.queue), id)
  head.tally.waiting = head.tally.waiting - 1
  stand(id, next_head, 'r', true, counters_in(text), stamp)
  ready(id, next_head)
end

-- Moves scheduled jobs of a queue whose moment has come, before anything else of the queue becomes ready.
came_due = {}
come_due = function(queue)
  if came_due[queue] then return end
  came_due[queue] = { more = false }
  local due = zset('due', queue)
  local late = call('ZRANGEBYSCORE', due.key, '-inf', now, 'WITHSCORES', 'LIMIT', 0, MOVED)
  if #late == 0 then return end
  came_due[queue].more = #late == 2 * MOVED
  local ids, at, size, bytes = {}, 1, FIRST_LOOK, 0
  while at <= #late and bytes < MOVED_BYTES do
    local some = {}
    for i = at, min(at + 2 * size - 2, #late), 2 do some[#some + 1] = sub(late[i], 5) end
    prefetch(jobs, some)
    for i = 1, #some do
      ids[#ids + 1] = some[i]
      bytes = bytes + #(get(jobs, some[i]) or '')
    end
    at, size = at + 2 * #some, 2 * size
  end
  if at <= #late then came_due[queue].more = true end
  prefetch(live, ids)
  prefetch(ends, ids)
  for i = 1, #ids do
    local member, id = late[2 * i - 1], ids[i]
    local record, text = get(jobs, id), get(live, id)
    if due.changed[member] == nil then
      set(due, member, false)
      count(queue, 'scheduled', -1)
      local since = pack('>d', tonumber(late[2 * i]))
      if text then
        local row = row_of(text)
        if row.head.lane ~= '' and not row.slot then
          admit(id, row.head, since, row.counters)
        else
          go_on(id, row.head, row.slot, row.counters, since)
        end
      elseif record and not get(ends, id) then
        admit(id, head_in(record), since)
      end
    end
  end
end

function all_came_due(queue)
  come_due(queue)
  return not came_due[queue].more
end

-- Takes a job out of the place where it stands; answers its head, counters, whether it has a slot, and the state.
function withdraw(id, record)
  local text = get(live, id)
  if not text then
    local head = head_in(record)
    local due = zset('due', head.queue)
    if head.flag ~= 'p' and get(due, fresh_member(id, record)) then
      set(due, fresh_member(id, record), false)
      count(head.queue, 'scheduled', -1)
      return head, NEVER, false, 'scheduled'
    end
    leave_stale('ready:' .. head.line, id)
    count(head.queue, 'ready', -1)
    return head, NEVER, head.lane ~= '', 'ready'
  end
  local row = row_of(text)
  local head = row.head
  set(live, id, false)
  if row.place == 'w' then
    if unwait(id, row) == 'lane' then
      leave_stale('lane:' .. head.turn, id)
      pass_stale_heads(head)
    end
  else
    count(head.queue, STATES[row.place], -1)
    if row.place == 'l' then set(leases, id, false) end
    if row.place == 's' then set(zset('due', head.queue), tail_of(row) .. id, false) end
    if row.place == 'r' then leave_stale('ready:' .. head.line, id) end
  end
  return head, row.counters, row.slot, STATES[row.place]
end
