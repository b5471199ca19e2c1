-- Take back leases that ran out: ready again, or dead once begun and lost too often; answers id, worker, attempt, loss, state.
-- args: limit max_lost keep keep_cancelled
local late = call('ZRANGEBYSCORE', leases.key, '-inf', now, 'LIMIT', 0, limit)
local taken_back = {}
prefetch(live, late)
for _, id in ipairs(late) do
  local text = get(live, id)
  if not text and get(jobs, id) then mend(id, {}) end -- its row was lost
  set(leases, id, false)
  if text and byte(text, 33) == 108 then
    local row = row_of(text)
    local attempt, lost = unpacked('>I4I2', row.counters)
    local begun = step_in(text) > 0
    if lost == 0 or begun then
      lost = min(lost + 1, 65535)
    else
      attempt = max(attempt - 1, 0) -- the attempts of a job that was lost before hold a step when they begin
    end
    local counters, verdict = pack('>I4I2', attempt, lost), nil
    if row.cancelling then verdict = 'c' elseif begun and lost >= tonumber(max_lost) then verdict = 'k' end
    count(row.head.queue, 'running', -1)
    note('l', id)
    if verdict then
      set(live, id, false)
      local reason = verdict == 'k' and 'poison' or ''
      finish(id, row.head, verdict, verdict == 'k' and keep or keep_cancelled, NO_TOKEN .. stamp .. counters, reason .. '\31')
      leave(id, row.head, row.slot, WORDS[verdict])
    else
      go_on(id, row.head, row.slot, counters, stamp)
    end
    taken_back[#taken_back + 1] = id
    taken_back[#taken_back + 1] = worker_in(text)
    taken_back[#taken_back + 1] = attempt
    taken_back[#taken_back + 1] = lost
    taken_back[#taken_back + 1] = verdict and WORDS[verdict] or 'ready'
  end
end
conclude()
return taken_back
