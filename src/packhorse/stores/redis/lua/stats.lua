-- Every queue: counts (field, number …), the paused ones, and for each queue name, oldest ready and next due moment.
local counts, paused = call('HGETALL', key('counts')), call('SMEMBERS', key('paused'))
local names, moments = {}, {}
for i = 1, #counts, 2 do
  local queue = match(counts[i], '^([^\31]+)\31')
  if queue and not names[queue] then names[queue] = true end
end

-- When the first good entry of a line became ready. Lines are in order, so it is the oldest.
local function oldest(queue, priority)
  local line = queue .. '\31' .. priority
  for from = 0, 4000, 100 do
    local ids = call('LRANGE', key('ready', line), from, from + 99)
    for _, id in ipairs(ids) do
      local record = not pass_stale('ready:' .. line, id) and get(jobs, id)
      if record then
        local text = get(live, id)
        return text and unpacked('>d', since_in(text)) or max(born_in(record), due_in(record))
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
  local due = call('ZRANGE', key('due', queue), 0, 0, 'WITHSCORES')
  moments[#moments + 1] = queue
  moments[#moments + 1] = first and int(first) or ''
  moments[#moments + 1] = due[2] and int(tonumber(due[2])) or ''
end
return { counts, paused, moments }
