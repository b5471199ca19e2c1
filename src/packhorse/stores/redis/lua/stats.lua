-- Return the counts (field, number …), the paused queues, for each queue its name, oldest ready and next due time, and the
-- past counts (name, jobs removed, ends left as done, dead and cancelled) of these and the paused queues.
-- needs: call builtins key int reads jobs live claimed_records moments stale_entries
local counts, paused = call('HGETALL', key('counts')), call('SMEMBERS', key('paused'))
local names, moments = {}, {}
for i = 1, #counts, 2 do
  local queue = match(counts[i], '^([^\31]+)\31')
  if queue and not names[queue] then names[queue] = true end
end

-- Return when the first good entry of a list became ready. Lists are in order, so it is the oldest.
local function oldest(queue, priority)
  local ready_list = queue .. '\31' .. priority
  for from = 0, 4000, 100 do
    local ids = call('LRANGE', key('ready', ready_list), from, from + 99)
    for _, id in ipairs(ids) do
      local record = not skip_stale('ready:' .. ready_list, id) and get(jobs, id)
      if record then
        local text = get(live, id)
        return text and unpacked('>d', since_in(text)) or max(enqueued_in(record), due_in(record))
      end
    end
    if #ids < 100 then return nil end
  end
end

for queue in pairs(names) do
  local first
  for _, priority in ipairs(call('ZRANGE', key('priorities', queue), 0, -1)) do
    local since = oldest(queue, priority)
    if since then first = min(first or since, since) end
  end
  local due = call('ZRANGE', key('scheduled', queue), 0, 0, 'WITHSCORES')
  moments[#moments + 1] = queue
  moments[#moments + 1] = first and int(first) or ''
  moments[#moments + 1] = due[2] and int(tonumber(due[2])) or ''
end
local past = {}
for i = 1, #paused do names[paused[i]] = true end
for queue in pairs(names) do
  local prefix = queue .. '\31'
  local fields = { prefix .. 'enqueued', prefix .. 'done', prefix .. 'dead', prefix .. 'cancelled' }
  past[#past + 1] = queue
  for _, number in ipairs(call('HMGET', key('past_counts'), unpack(fields))) do past[#past + 1] = number or '0' end
end
return { counts, paused, moments, past }
