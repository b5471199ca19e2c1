-- Remove jobs with all that belongs to them; answers 1 or 0 for each.
-- args: targets:1
local ids, answers = column(targets, 1), {}
prefetch(jobs, ids)
prefetch(ends, ids)
prefetch(live, ids)

local function drop(id)
  set(tombs, id, false)
  local record, row = get(jobs, id), get(ends, id)
  if not record then return 0 end
  if row then
    unshelve(row)
    count(head_in(record).queue, STATES[sub(row, 1, 1)], -1)
  else
    local head, _, slot = withdraw(id, record)
    leave(id, head, slot, 'dropped')
    dropped_jobs[#dropped_jobs + 1] = id
  end
  forget(id, -1)
  return 1
end

for i, id in ipairs(ids) do answers[i] = drop(id) end
conclude()
forget_empty_queues()
return answers
