-- Putting right what does not fit together, as after somebody deleted keys or fields by hand. The record is the truth:
-- without one nothing else of a job is kept, and with one it gets back the place that its other rows tell of.
-- gives: mend
local function missing_from(list_key, id) return not call('LPOS', list_key, id, 'RANK', '-1') end

-- A job without a record leaves all its places; what waits for it goes on.
local function mend_without_record(id)
  local ended_row = get(ends, id)
  if get(live, id) then
    local head, _, slot = withdraw(id)
    leave(id, head, slot, 'dropped')
    dropped_jobs[#dropped_jobs + 1] = id
  elseif ended_row then
    local queue = match(unshelve(ended_row) or '', '^([^\31]*)\31')
    if queue then count(queue, STATES[sub(ended_row, 1, 1)], -1) end
  else
    return nil
  end
  forget(id, 1000)
  return 'without a record'
end

-- A job that its record alone knows of: it stands in `due` or in a line, or lost its live row while it ran.
local function mend_without_row(id, record, searching)
  local head = head_in(record)
  if get(leases, id) then
    set(leases, id, false)
    count(head.queue, 'running', -1)
    go_on(id, head, head.lane ~= '', NEVER, stamp)
    return 'without a row'
  end
  local due = zset('due', head.queue)
  if head.flag ~= 'p' and get(due, fresh_member(id, record)) then return nil end
  -- Its moment may have come before the clock was set back: then it stands in its line already.
  local later = due_in(record) > now
  if not (later or searching) or not missing_from(key('ready', head.line), id) then return nil end
  if later then
    set(due, fresh_member(id, record), int(due_in(record)))
    return 'not in due'
  end
  go_on(id, head, head.lane ~= '', NEVER, stamp)
  return 'in no line'
end

local function mend_with_row(id, row, searching)
  local head = row.head
  if row.place == 'l' then
    if get(leases, id) then return nil end
    set(leases, id, int(now + searching.lease)) -- whoever has it may still renew it
    return 'without a lease'
  elseif row.place == 's' then
    local due, member = zset('due', head.queue), tail_of(row) .. id
    if get(due, member) then return nil end
    set(due, member, int(now))
    return 'not in due'
  elseif row.place == 'w' then
    local there, lined = call('ZSCORE', key('waits', head.queue), id), true
    if searching.lines and why(row) == 'lane' then lined = not missing_from(key('lane', head.turn), id) end
    if there and lined then return nil end
    if not there then wait_again(id, row) end
    if not lined then push(behind(head), id) end
    return 'not among those that wait'
  elseif searching.lines and missing_from(key('ready', head.line), id) then
    go_on(id, head, row.slot, row.counters, stamp)
    return 'in no line'
  end
  return nil
end

-- Looks at one job and says what was wrong with it, or nothing. `searching` has the time a lease found again gets, and
-- whether lines are looked through, which takes long.
function mend(id, searching)
  local record, text = get(jobs, id), get(live, id)
  if not record then return mend_without_record(id) end
  if get(ends, id) then return nil end
  if text then return mend_with_row(id, row_of(text), searching) end
  return mend_without_row(id, record, searching.lines)
end
