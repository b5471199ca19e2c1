-- Take back leases that expired: jobs are ready again, or dead if they began and were lost too often. Return id, worker,
-- attempt, losses and state of each.
-- args: limit max_lost keep keep_cancelled
-- needs: call builtins now reads writes counts jobs live running live_rows parts_of_rows moves note_change conclude groups
-- needs: end_job free_and_deliver repair
local late = call('ZRANGEBYSCORE', running.key, '-inf', now, 'LIMIT', 0, limit)
local taken_back = {}
prefetch(live, late)
for _, id in ipairs(late) do
  local text = get(live, id)
  if not text and get(jobs, id) then repair(id, {}) end -- its live row was deleted
  set(running, id, false)
  if text and byte(text, PLACE_AT) == RUNNING_BYTE then
    local row = row_of(text)
    local attempt, lost = unpacked('>I4I2', row.counters)
    local begun = step_in(text) > 0
    if lost == 0 or begun then
      lost = min(lost + 1, 65535)
    else
      attempt = max(attempt - 1, 0) -- once a job was lost, its attempts hold a step when they begin: this one did not
    end
    local counters, verdict = pack('>I4I2', attempt, lost), nil
    if row.cancelling then verdict = CANCELLED elseif begun and lost >= tonumber(max_lost) then verdict = DEAD end
    count(row.head.queue, 'running', -1)
    note_change('l', id)
    if verdict then
      set(live, id, false)
      local reason = verdict == DEAD and 'poison' or ''
      end_job(id, row.head, verdict, verdict == DEAD and keep or keep_cancelled, NO_TOKEN .. stamp .. counters, reason .. '\31')
      free_and_deliver(id, row.head, row.slot, VERDICT_WORDS[verdict])
    else
      proceed(id, row.head, row.slot, counters, stamp)
    end
    taken_back[#taken_back + 1] = id
    taken_back[#taken_back + 1] = worker_in(text)
    taken_back[#taken_back + 1] = attempt
    taken_back[#taken_back + 1] = lost
    taken_back[#taken_back + 1] = verdict and VERDICT_WORDS[verdict] or 'ready'
  end
end
conclude()
return taken_back
