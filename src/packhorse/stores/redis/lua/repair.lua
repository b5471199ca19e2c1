-- Check that jobs are in the lists and sets that their rows name, and repair those that are not. Without targets the jobs
-- are picked at random; with targets, lists are searched and counts corrected too. Return whether the counts of some
-- queues fit, the cursor for the next queues, and the id and the defect of each job that was repaired.
-- args: lease cursor targets:1
-- needs: call builtins key int arguments commit_even_if_full reads write_counts jobs live ended running stale
-- needs: parts_of_rows conclude repair
local SAMPLE_SIZE, MAX_STALE_ENTRIES, COUNTS_PER_CALL = 50, 1000, 500
local searching = { lease = tonumber(lease), lists = targets.count > 0 }
local repaired, COUNTED_STATES = {}, { 'ready', 'scheduled', 'running', 'waiting' }

local function picked()
  local ids, known = {}, { [''] = true } -- the field of the layout
  for _, from in ipairs({ jobs, live, ended }) do
    for _, id in ipairs(call('HRANDFIELD', from.key, SAMPLE_SIZE)) do
      if not known[id] then
        ids[#ids + 1], known[id] = id, true
      end
    end
  end
  return ids
end

-- Count the jobs of a queue in each state; ready jobs are not counted if there are too many stale entries.
local function standing(queue, stale_of, running_of)
  local ready = stale_of and 0 - (stale_of[queue] or 0)
  if ready then
    for _, priority in ipairs(call('ZRANGE', key('priorities', queue), 0, -1)) do
      ready = ready + call('LLEN', key('ready', queue .. '\31' .. priority))
    end
  end
  return {
    ready = ready, scheduled = call('ZCARD', key('scheduled', queue)), waiting = call('ZCARD', key('waiting', queue)),
    running = running_of[queue] or 0,
  }
end

local function stale_entries()
  if call('HLEN', stale.key) > MAX_STALE_ENTRIES then return nil end
  local found, all = {}, call('HGETALL', stale.key)
  for i = 1, #all, 2 do
    local queue = match(all[i], '^ready:([^\31]*)\31')
    if queue then found[queue] = (found[queue] or 0) + all[i + 1] end
  end
  return found
end

local function leases_by_queue()
  local found, all = {}, call('ZRANGEBYSCORE', running.key, '-inf', '(+inf') -- the infinite one is the layout's
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

-- Compare the counts of some queues with their lists and sets; correct them if lists are searched.
local function fit()
  local scan, queues, fits = call('HSCAN', key('counts'), cursor, 'COUNT', COUNTS_PER_CALL), {}, true
  for i = 1, #scan[2], 2 do
    local queue = match(scan[2][i], '^([^\31]*)\31%a+$')
    if queue then queues[queue] = true end
  end
  local stale_of, running_of = stale_entries(), leases_by_queue()
  for queue in pairs(queues) do
    local there = standing(queue, stale_of, running_of)
    for _, state in ipairs(COUNTED_STATES) do
      if there[state] and there[state] ~= total(queue, state) then
        fits = false
        if searching.lists then call('HSET', key('counts'), queue .. '\31' .. state, int(there[state])) end
      end
    end
  end
  return fits, scan[1]
end

local ids = searching.lists and column(targets, 1) or picked()
for _, from in ipairs({ jobs, live, ended }) do prefetch(from, ids) end
for _, id in ipairs(ids) do
  local wrong = repair(id, searching)
  if wrong then
    repaired[#repaired + 1] = id
    repaired[#repaired + 1] = wrong
  end
end
if #repaired > 0 then conclude() elseif searching.lists then commit_even_if_full() end
local fits, next_cursor = fit()
return { fits and '1' or '0', next_cursor, repaired }
