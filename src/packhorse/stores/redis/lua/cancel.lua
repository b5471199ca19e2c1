-- End jobs that are not running and ask running ones to stop; return the state of each.
-- args: keep targets:1
-- needs: builtins now arguments reads writes jobs live ended states withdraw conclude end_job free_and_deliver
local ids, states = column(targets, 1), {}
prefetch(jobs, ids)
prefetch(ended, ids)
prefetch(live, ids)
for i, id in ipairs(ids) do
  local record, ended_row, text = get(jobs, id), get(ended, id), get(live, id)
  if not record then
    states[i] = ''
  elseif ended_row then
    states[i] = STATES[sub(ended_row, 1, 1)]
  elseif text and byte(text, PLACE_AT) == RUNNING_BYTE then
    set(live, id, sub(text, 1, PLACE_AT) .. (byte(text, MARK_AT) % 2 == 1 and '3' or '2') .. sub(text, AFTER_MARK_AT))
    states[i] = 'running'
  else
    local head, counters, slot = withdraw(id, record)
    end_job(id, head, CANCELLED, keep, NO_TOKEN .. stamp .. counters, '\31')
    free_and_deliver(id, head, slot, 'cancelled')
    states[i] = 'cancelled'
  end
end
conclude()
return states
