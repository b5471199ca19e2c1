-- Repair of jobs after keys or fields were deleted by hand. The record decides: without it the rest of a job is removed;
-- with it, entries that its rows name are written again.

-- part: repair
-- gives: repair
-- needs: call builtins key int now cache reads writes lists counts past_counts jobs live ended running records states live_rows
-- needs: tail_of scheduled_member moments moves stop_waiting wait_again withdraw watchers uncount_in_group free_and_deliver remove_job
local function missing_from(list_key, id) return not call('LPOS', list_key, id, 'RANK', '-1') end

-- Remove what is left of a job without a record; jobs that wait for it stop waiting.
local function repair_without_record(id)
  local ended_row = get(ended, id)
  if get(live, id) then
    local head, _, slot = withdraw(id)
    free_and_deliver(id, head, slot, 'dropped')
    dropped_jobs[#dropped_jobs + 1] = id
    count_removed(head.queue)
  elseif ended_row then
    local queue = match(uncount_in_group(ended_row) or '', '^([^\31]*)\31')
    if queue then
      count(queue, STATES[sub(ended_row, 1, 1)], -1)
      count_left_end(queue, STATES[sub(ended_row, 1, 1)])
      count_removed(queue)
    end
  else
    return nil
  end
  remove_job(id, 1000)
  return 'without a record'
end

-- Check a job without a live row: it is scheduled or ready, or its row was deleted while it ran.
local function repair_without_row(id, record, searching)
  local head = head_in(record)
  if get(running, id) then
    set(running, id, false)
    count(head.queue, 'running', -1)
    proceed(id, head, head.lane ~= '', NO_ATTEMPT, stamp)
    return 'without a row'
  end
  local due = zset('scheduled', head.queue)
  if head.flag ~= 'p' and get(due, scheduled_member(id, record)) then return nil end
  -- If it came due before the clock was set back, it is in its ready list already.
  local later = due_in(record) > now
  if not (later or searching) or not missing_from(key('ready', head.ready_list), id) then return nil end
  if later then
    set(due, scheduled_member(id, record), int(due_in(record)))
    return 'missing from scheduled'
  end
  proceed(id, head, head.lane ~= '', NO_ATTEMPT, stamp)
  return 'missing from ready'
end

local function repair_with_row(id, row, searching)
  local head = row.head
  if row.place == RUNNING then
    if get(running, id) then return nil end
    set(running, id, int(now + searching.lease)) -- its worker may still renew it
    return 'without a lease'
  elseif row.place == SCHEDULED then
    local due, member = zset('scheduled', head.queue), tail_of(row) .. id
    if get(due, member) then return nil end
    set(due, member, int(now))
    return 'missing from scheduled'
  elseif row.place == WAITING then
    local there, listed = call('ZSCORE', key('waiting', head.queue), id), true
    if searching.lists and wait_reason(row) == 'lane' then listed = not missing_from(key('lane', head.lane_key), id) end
    if there and listed then return nil end
    if not there then wait_again(id, row) end
    if not listed then push(lane_list(head), id) end
    return 'missing from waiting'
  elseif searching.lists and missing_from(key('ready', head.ready_list), id) then
    proceed(id, head, row.slot, row.counters, stamp)
    return 'missing from ready'
  end
  return nil
end

-- Check and repair a job; return its defect, or nil. `searching` has the duration of a lease that is written again, and
-- whether lists are searched, which takes long.
function repair(id, searching)
  local record, text = get(jobs, id), get(live, id)
  if not record then return repair_without_record(id) end
  if get(ended, id) then return nil end
  if text then return repair_with_row(id, row_of(text), searching) end
  return repair_without_row(id, record, searching.lists)
end
