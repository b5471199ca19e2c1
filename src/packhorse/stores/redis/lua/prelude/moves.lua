-- Moves of jobs between scheduled, ready and waiting. A job takes a lane slot when it becomes ready and keeps it until it
-- ends.

-- part: stale_entries
-- gives: any_stale skip_stale
-- needs: call int reads writes stale
-- Entries of lists are never searched for: one that is no longer good is counted here by list and id. Lists are read from
-- the head and grow at the tail, so of equal entries the first ones are stale.
local function mark_stale(list_name, id)
  local field = list_name .. '\31' .. id
  set(stale, field, int((get(stale, field) or 0) + 1))
  stale.some = true
end

function any_stale()
  if stale.some == nil then stale.some = call('HLEN', stale.key) > 0 end
  return stale.some
end

-- Return whether the entry at the head of a list is stale; if so, uncount it, because the caller removes it.
function skip_stale(list_name, id)
  if not any_stale() then return false end
  local field = list_name .. '\31' .. id
  local left = tonumber(get(stale, field) or 0)
  if left == 0 then return false end
  set(stale, field, left > 1 and int(left - 1) or false)
  return true
end

-- part: woken
-- gives: woken
woken = {}

-- part: moves
-- gives: schedule lane_list admit admit_in_turn proceed due_moved move_due all_due_moved
-- needs: call builtins key int now cache commands reads writes lists writers counts jobs live ended lane_slots arrivals
-- needs: records live_rows write_live woken
local MOVE_MAX_JOBS = 500 -- scheduled jobs of a queue that one call makes ready
local MOVE_MAX_BYTES, FIRST_READ_JOBS = 4194304, 10 -- limit of their records, which are read whole for their heads
local ready_lists = {}

local function push_ready(id, head)
  local ready_list = ready_lists[head.ready_list]
  if not ready_list then
    move_due(head.queue)
    ready_list = ready_lists[head.ready_list] or { queue = head.queue, priority = head.priority, count = 0 }
    ready_lists[head.ready_list] = ready_list
    woken[head.queue] = true
  end
  ready_list.count = ready_list.count + 1
  ready_list[ready_list.count] = id
end

writers[#writers + 1] = function()
  for name, ready_list in pairs(ready_lists) do
    call('ZADD', key('priorities', ready_list.queue), ready_list.priority, ready_list.priority)
    spread('RPUSH', key('ready', name), ready_list)
    count(ready_list.queue, 'ready', ready_list.count)
  end
  ready_lists = {}
end

function schedule(id, head, due, slot, counters)
  local order = pack('>I4', arrival() % 4294967296)
  write_live(id, head, SCHEDULED, slot, counters, order)
  set(zset('scheduled', head.queue), order .. id, int(due))
  count(head.queue, 'scheduled', 1)
end

-- Waiting jobs are stored in order of arrival by queue; jobs that can be released also by reason, by reason and task, and
-- by the record for which they wait.
local waits = {}

local function waits_of(queue)
  local waiting = waits[queue]
  if not waiting then
    waiting = buffered(zset('waiting', queue))
    waits[queue] = waiting
  end
  return waiting
end

local function write_waiting(id, head, reason, on, order)
  set(waits_of(head.queue), id, order)
  count(head.queue, 'waiting', order and 1 or -1)
  if reason == 'lane' or reason == 'children' then return end
  set(zset('reasons', reason), id, order)
  set(zset('reasons', reason .. '\31' .. head.task), id, order)
  if reason == 'signal' then set(zset('on', on), id, order) end
end

-- Return the list of jobs that wait for a lane. Stale entries never stay at its head, so it exists only if a job waits.
function lane_list(head)
  local waiting = head.lane_list
  if not waiting then
    waiting = list('lane', head.lane_key)
    head.lane_list = waiting
  end
  return waiting
end

local LANE_WAIT_TAIL = stamp .. 'lane\31\31\31\31\31'

local function wait_in_lane(id, head, counters)
  write_live(id, head, WAITING, false, counters or NO_ATTEMPT, LANE_WAIT_TAIL)
  add_score(waits_of(head.queue), id, arrival())
  head.tally.waiting = head.tally.waiting + 1
  push(lane_list(head), id)
end

-- Make a due job ready with a slot of its lane, or let it wait for the lane. A job without counters was never leased, and
-- needs no live row while `since` is the time of its record.
function admit(id, head, since, counters)
  local slot = head.lane ~= ''
  if slot then
    move_due(head.queue)
    local taken = tonumber(get(lane_slots, head.lane_key) or 0)
    if taken > 0 and (taken >= tonumber(head.limit) or front(lane_list(head))) then return wait_in_lane(id, head, counters) end
    set(lane_slots, head.lane_key, int(taken + 1))
  end
  if counters then write_live(id, head, READY, slot, counters, since) end
  push_ready(id, head)
end

-- Admit a job behind all that are due. If this call cannot move all of those, the job is scheduled behind them.
function admit_in_turn(id, head, since, counters)
  if head.lane ~= '' and not all_due_moved(head.queue) then return schedule(id, head, now, false, counters or NO_ATTEMPT) end
  admit(id, head, since, counters)
end

-- Make a job ready that keeps its lane slot; without one it is admitted behind the jobs that are due.
function proceed(id, head, slot, counters, since)
  if head.lane ~= '' and not slot then return admit_in_turn(id, head, since, counters) end
  write_live(id, head, READY, slot, counters, since)
  push_ready(id, head)
end

-- Move the due jobs of a queue, before any other job of the queue becomes ready.
due_moved = {}
move_due = function(queue)
  if due_moved[queue] then return end
  due_moved[queue] = { more = false }
  local due = zset('scheduled', queue)
  local late = call('ZRANGEBYSCORE', due.key, '-inf', now, 'WITHSCORES', 'LIMIT', 0, MOVE_MAX_JOBS)
  if #late == 0 then return end
  due_moved[queue].more = #late == 2 * MOVE_MAX_JOBS
  local ids, at, size, bytes = {}, 1, FIRST_READ_JOBS, 0
  while at <= #late and bytes < MOVE_MAX_BYTES do
    local some = {}
    for i = at, min(at + 2 * size - 2, #late), 2 do some[#some + 1] = sub(late[i], 5) end
    prefetch(jobs, some)
    for i = 1, #some do
      ids[#ids + 1] = some[i]
      bytes = bytes + #(get(jobs, some[i]) or '')
    end
    at, size = at + 2 * #some, 2 * size
  end
  if at <= #late then due_moved[queue].more = true end
  prefetch(live, ids)
  prefetch(ended, ids)
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
          proceed(id, row.head, row.slot, row.counters, since)
        end
      elseif record and not get(ended, id) then
        admit(id, head_in(record), since)
      end
    end
  end
end

function all_due_moved(queue)
  move_due(queue)
  return not due_moved[queue].more
end

-- part: wait
-- gives: wait
-- needs: builtins now arrivals write_live moves
-- `about` is: children to wait for \31 version to be passed \31 kind \31 key of a record \31 detail.
function wait(id, head, reason, slot, counters, about)
  write_live(id, head, WAITING, slot, counters, stamp .. reason .. '\31' .. about)
  write_waiting(id, head, reason, match(about, '^[^\31]*\31[^\31]*\31([^\31]*\31[^\31]*)'), arrival())
end

-- part: stop_waiting
-- gives: wait_reason stop_waiting
-- needs: builtins now reads jobs tries tail_of moments moves
-- Return why a job waits: reason, children, version, kind and key.
function wait_reason(row) return match(sub(tail_of(row), 9), '^([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)') end

local function unwait(id, row)
  local reason, _, _, kind, name = wait_reason(row)
  write_waiting(id, row.head, reason, kind .. '\31' .. name, false)
  return reason
end

-- End the wait of a job: it is ready, or scheduled if it is due later and never ran.
function stop_waiting(id, row)
  unwait(id, row)
  local record = get(jobs, id)
  local due = record and due_in(record) or 0
  if due > now and not get(tries, id) then
    schedule(id, row.head, due, row.slot, row.counters)
  else
    proceed(id, row.head, row.slot, row.counters, stamp)
  end
end

-- part: wait_again
-- gives: wait_again
-- needs: counts arrivals moves stop_waiting
-- Write the entries of a waiting job again; it is counted already.
function wait_again(id, row)
  local reason, _, _, kind, name = wait_reason(row)
  write_waiting(id, row.head, reason, kind .. '\31' .. name, arrival())
  count(row.head.queue, 'waiting', -1)
end

-- part: hand_on_slot
-- gives: hand_on_slot
-- needs: int now reads writes lists live lane_slots write_live parts_of_rows stale_entries moves
local function skip_stale_heads(head)
  if not any_stale() then return end
  local waiting = lane_list(head)
  while front(waiting) and skip_stale('lane:' .. head.lane_key, front(waiting)) do shift(waiting) end
end

-- Give the lane slot of an ended job to the first job that waits for the lane, or free it.
function hand_on_slot(head)
  local id = shift(lane_list(head))
  local text = id and get(live, id)
  if id then skip_stale_heads(head) end
  if not text then
    local taken = tonumber(get(lane_slots, head.lane_key) or 0) - 1
    set(lane_slots, head.lane_key, taken > 0 and int(taken))
    return
  end
  local next_head = head_in_row(text)
  remove(waits_of(head.queue), id)
  head.tally.waiting = head.tally.waiting - 1
  write_live(id, next_head, READY, true, counters_in(text), stamp)
  push_ready(id, next_head)
end

-- part: withdraw
-- gives: withdraw
-- needs: cache reads writes counts live running records states live_rows tail_of scheduled_member stale_entries stop_waiting
-- needs: hand_on_slot
-- Remove a job from its list or set; return its head, counters, whether it has a lane slot, and its state.
function withdraw(id, record)
  local text = get(live, id)
  if not text then
    local head = head_in(record)
    local due = zset('scheduled', head.queue)
    if head.flag ~= 'p' and get(due, scheduled_member(id, record)) then
      set(due, scheduled_member(id, record), false)
      count(head.queue, 'scheduled', -1)
      return head, NO_ATTEMPT, false, 'scheduled'
    end
    mark_stale('ready:' .. head.ready_list, id)
    count(head.queue, 'ready', -1)
    return head, NO_ATTEMPT, head.lane ~= '', 'ready'
  end
  local row = row_of(text)
  local head = row.head
  set(live, id, false)
  if row.place == WAITING then
    if unwait(id, row) == 'lane' then
      mark_stale('lane:' .. head.lane_key, id)
      skip_stale_heads(head)
    end
  else
    count(head.queue, STATES[row.place], -1)
    if row.place == RUNNING then set(running, id, false) end
    if row.place == SCHEDULED then set(zset('scheduled', head.queue), tail_of(row) .. id, false) end
    if row.place == READY then mark_stale('ready:' .. head.ready_list, id) end
  end
  return head, row.counters, row.slot, STATES[row.place]
end
