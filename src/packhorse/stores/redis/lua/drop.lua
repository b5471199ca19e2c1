-- Remove jobs with all that belongs to them; return 1 or 0 for each, or only for the first if these have many children.
-- args: targets:1
-- needs: builtins arguments reads writes counts past_counts forget_empty_queues jobs live ended tombstones records states withdraw
-- needs: watchers conclude uncount_in_group free_and_deliver remove_job
local ids, answers, forgotten = column(targets, 1), {}, 0
prefetch(jobs, ids)
prefetch(ended, ids)
prefetch(live, ids)

local function drop(id)
  set(tombstones, id, false)
  local record, row = get(jobs, id), get(ended, id)
  if not record then return 0 end
  count_removed(head_in(record).queue)
  if row then
    uncount_in_group(row)
    count(head_in(record).queue, STATES[sub(row, 1, 1)], -1)
    count_left_end(head_in(record).queue, STATES[sub(row, 1, 1)])
  else
    local head, _, slot = withdraw(id, record)
    free_and_deliver(id, head, slot, 'dropped')
    dropped_jobs[#dropped_jobs + 1] = id
  end
  local _, number = remove_job(id, -1)
  forgotten = forgotten + number
  return 1
end

for i, id in ipairs(ids) do
  if forgotten >= REMOVE_MAX_DELIVERIES then break end
  answers[i] = drop(id)
end
conclude()
forget_empty_queues()
return answers
