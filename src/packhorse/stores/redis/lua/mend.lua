-- Look whether jobs stand where their rows say, put right those that do not, and count anew where that is doubtful.
-- Without targets some are picked at random; with some, lines are looked through for them. Answers whether the numbers
-- of some queues fit together now, where to go on with the next, and id and what was wrong of each that was mended.
-- args: lease place targets:1
local PICKED, MANY, COUNTERS = 50, 1000, 500
local searching = { lease = tonumber(lease), lines = targets.count > 0 }
local mended, STANDING = {}, { 'ready', 'scheduled', 'running', 'waiting' }

local function picked()
  local ids, known = {}, { [''] = true } -- the layout's own field
  for _, from in ipairs({ jobs, live, ends }) do
    for _, id in ipairs(call('HRANDFIELD', from.key, PICKED)) do
      if not known[id] then
        ids[#ids + 1], known[id] = id, true
      end
    end
  end
  return ids
end

-- How many stand in each place of a queue; nothing for lines with more stale entries than can be looked at.
local function standing(queue, stale_of, running_of)
  local ready = stale_of and 0 - (stale_of[queue] or 0)
  if ready then
    for _, priority in ipairs(call('ZRANGE', key('priorities', queue), 0, -1)) do
      ready = ready + call('LLEN', key('ready', queue .. '\31' .. priority))
    end
  end
  return {
    ready = ready, scheduled = call('ZCARD', key('due', queue)), waiting = call('ZCARD', key('waits', queue)),
    running = running_of[queue] or 0,
  }
end

local function stale_entries()
  if call('HLEN', stale.key) > MANY then return nil end
  local found, all = {}, call('HGETALL', stale.key)
  for i = 1, #all, 2 do
    local queue = match(all[i], '^ready:([^\31]*)\31')
    if queue then found[queue] = (found[queue] or 0) + all[i + 1] end
  end
  return found
end

local function leases_by_queue()
  local found, all = {}, call('ZRANGEBYSCORE', leases.key, '-inf', '(+inf') -- that without end is the layout's own
  for first = 1, #all, CHUNK do
    local some = { unpack(all, first, min(first + CHUNK - 1, #all)) }
    for _, text in ipairs(call('HMGET', live.key, unpack(some))) do
      if text then
        local queue = head_in_row(text).queue
        found[queue] = (found[queue] or 0) + 1
      end
    end
  end
  return found
end

-- Compares what is counted with what stands there; where jobs were looked for in lines, what stands there holds.
local function fit()
  local scan, queues, fits = call('HSCAN', key('counts'), place, 'COUNT', COUNTERS), {}, true
  for i = 1, #scan[2], 2 do
    local queue = match(scan[2][i], '^([^\31]*)\31%a+$')
    if queue then queues[queue] = true end
  end
  local stale_of, running_of = stale_entries(), leases_by_queue()
  for queue in pairs(queues) do
    local there = standing(queue, stale_of, running_of)
    for _, state in ipairs(STANDING) do
      if there[state] and there[state] ~= total(queue, state) then
        fits = false
        if searching.lines then call('HSET', key('counts'), queue .. '\31' .. state, int(there[state])) end
      end
    end
  end
  return fits, scan[1]
end

local ids = searching.lines and column(targets, 1) or picked()
for _, from in ipairs({ jobs, live, ends }) do prefetch(from, ids) end
for _, id in ipairs(ids) do
  local wrong = mend(id, searching)
  if wrong then
    mended[#mended + 1] = id
    mended[#mended + 1] = wrong
  end
end
if #mended > 0 then conclude() elseif searching.lines then commit_even_if_full() end
local fits, next_place = fit()
return { fits and '1' or '0', next_place, mended }
