-- Make scheduled jobs, and jobs that wait for a person, ready now; return 1 or 0 for each.
-- args: targets:1
-- needs: now arguments cache reads jobs live records live_rows tail_of scheduled_member moves stop_waiting withdraw note_change
-- needs: conclude
local ids, answers = column(targets, 1), {}
prefetch(jobs, ids)
prefetch(live, ids)

-- Return whether this member of the queue's `scheduled` is due later than now.
local function to_come(queue, member)
  local due = get(zset('scheduled', queue), member)
  return due and tonumber(due) > now
end

local function held_back(id, record)
  local text = get(live, id)
  if not text then
    local head = head_in(record)
    return head.flag ~= 'p' and to_come(head.queue, scheduled_member(id, record))
  end
  local row = row_of(text)
  if row.place == SCHEDULED then return to_come(row.head.queue, tail_of(row) .. id) end
  return row.place == WAITING and wait_reason(row) == 'intervention'
end

local function promote(id)
  local record = get(jobs, id)
  if not record or not held_back(id, record) then return 0 end
  local head, counters, slot = withdraw(id, record)
  proceed(id, head, slot, counters, stamp)
  note_change('u', id)
  return 1
end

for i, id in ipairs(ids) do answers[i] = promote(id) end
conclude()
return answers
