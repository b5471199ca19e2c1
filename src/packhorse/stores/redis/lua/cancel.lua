-- End jobs that are not running and ask running ones to stop; answers where each stands now.
-- args: keep targets:1
local ids, states = column(targets, 1), {}
prefetch(jobs, ids)
prefetch(ends, ids)
prefetch(live, ids)
for i, id in ipairs(ids) do
  local record, ended_row, text = get(jobs, id), get(ends, id), get(live, id)
  if not record then
    states[i] = ''
  elseif ended_row then
    states[i] = STATES[sub(ended_row, 1, 1)]
  elseif text and byte(text, 33) == 108 then
    set(live, id, sub(text, 1, 33) .. (byte(text, 34) % 2 == 1 and '3' or '2') .. sub(text, 35))
    states[i] = 'running'
  else
    local head, counters, slot = withdraw(id, record)
    finish(id, head, 'c', keep, NO_TOKEN .. stamp .. counters, '\31')
    leave(id, head, slot, 'cancelled')
    states[i] = 'cancelled'
  end
end
conclude()
return states
