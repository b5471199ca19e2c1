-- How jobs end. `free_and_deliver` frees the unique key and lane slot of an ended job and delivers its outcome to its parent.
-- Ended jobs are listed in retention groups, one list for each queue, verdict and keep. A group has a number. An entry
-- is good if the row of the ended job names its group and its position, counted from the first entry ever appended.

-- part: groups
-- gives: VERDICT_WORDS group_rows group_of write_groups group_for append_to_group
-- needs: call builtins key int commands writers counts
VERDICT_WORDS = { [DONE] = 'done', [DEAD] = 'dead', [CANCELLED] = 'cancelled' }
local char = string.char
local groups, next_group = {}, nil
group_rows = key('retention_groups')

-- If the counter of numbers was deleted by hand, take it from the groups: two groups must never share a list.
local function highest_group()
  local highest, rows_of_groups = 0, call('HVALS', group_rows)
  for i = 1, #rows_of_groups do highest = max(highest, tonumber(match(rows_of_groups[i], '^%d+'))) end
  return highest
end

function group_of(name)
  local group = groups[name]
  if group then return group end
  local text = call('HGET', group_rows, name)
  if text then
    local number, base, kept = match(text, '^(%d+) (%d+) (%d+)$')
    group = { number = tonumber(number), base = tonumber(base), kept = tonumber(kept) }
  else
    next_group = (next_group or tonumber(call('HGET', key('serials'), 'retention_groups') or highest_group())) + 1
    group = { number = next_group, base = 0, kept = 0 }
  end
  group.packed = pack('>I4', group.number)
  group.key = key('retention_group', int(group.number))
  group.length, group.taken, group.pushed, group.push_count = call('LLEN', group.key), 0, {}, 0
  groups[name] = group
  return group
end

writers[#writers + 1] = function() write_groups() end

function write_groups()
  if next_group then call('HSET', key('serials'), 'retention_groups', int(next_group)) end
  next_group = nil
  for name, group in pairs(groups) do
    if group.taken > 0 then call('LTRIM', group.key, group.taken, -1) end
    if group.push_count > 0 then
      spread('RPUSH', group.key, group.pushed)
      group.kept = group.kept + group.push_count
      count(group.queue, VERDICT_WORDS[group.verdict], group.push_count)
    end
    group.length, group.base = group.length + group.push_count - group.taken, group.base + group.taken
    group.taken, group.pushed, group.push_count = 0, {}, 0
    if group.length > 0 then
      call('HSET', group_rows, name, int(group.number) .. ' ' .. int(group.base) .. ' ' .. int(group.kept))
    else
      call('HDEL', group_rows, name)
    end
  end
end

-- Return the group of a queue, verdict and keep (its count \31 its age).
function group_for(queue, verdict, keep)
  local group = group_of(queue .. '\31' .. verdict .. '\31' .. keep)
  group.queue, group.verdict, group.keep = queue, verdict, keep
  return group
end

-- Append a job to a group and return its position.
function append_to_group(group, id)
  local pushes = group.push_count
  local position = (group.base + group.length + pushes) % 4294967296
  local low = position % 256
  if low == 0 or pushes == 0 then group.high = sub(pack('>I4', position), 1, 3) end
  group.pushed[pushes + 1], group.push_count = id, pushes + 1
  return group.high .. char(low)
end

-- part: end_job
-- gives: end_job
-- needs: writes ended note_change groups
-- Write the ended row of a job; `proof` is token, time and counters, `tail` is reason and result. Groups are cached with
-- the heads of their queue.
function end_job(id, head, verdict, keep, proof, tail)
  local common = head.shared
  local group = common[verdict]
  if not group or group.keep ~= keep then
    group = group_for(head.queue, verdict, keep)
    common[verdict] = group
  end
  add(ended, id, verdict .. proof .. group.packed .. tail .. append_to_group(group, id))
  note_change(verdict, id)
end

-- part: uncount_in_group
-- gives: uncount_in_group
-- needs: call builtins int groups
-- Uncount an ended job in its group and return the group's name; the list entry stays and is skipped later.
local group_names

function uncount_in_group(row)
  if not group_names then
    group_names = {}
    local all = call('HGETALL', group_rows)
    for i = 1, #all, 2 do group_names[match(all[i + 1], '^%d+')] = all[i] end
  end
  local name = group_names[int((unpacked('>I4', sub(row, GROUP_AT, GROUP_END))))]
  if name then group_of(name).kept = group_of(name).kept - 1 end
  return name
end

-- part: hex
-- needs: builtins
local function from_hex(text)
  return (string.gsub(text, '..', function(pair) return string.char(tonumber(pair, 16)) end))
end

local function to_hex(id)
  return (string.gsub(id, '.', function(letter) return format('%02x', byte(letter)) end))
end

-- part: free_and_deliver
-- gives: free_unique free_and_deliver
-- needs: builtins int reads writes jobs live uniques delivered live_rows stop_waiting hand_on_slot record_of put_record hex
-- Store the outcome of a child for its parent; the parent stops waiting after the last one.
local function deliver(id, head, word, result)
  local parent = from_hex(head.parent)
  if not get(jobs, parent) then return end
  local name = head.parent .. '/' .. to_hex(id)
  local first = not record_of(DELIVERED, name)
  put_record(DELIVERED, name, word .. (result and ' ' .. result or ''), 0, 0)
  local arrived_now = tonumber(get(delivered, parent) or 0) + (first and 1 or 0)
  if first then set(delivered, parent, int(arrived_now)) end
  local text = get(live, parent)
  local row = text and row_of(text)
  if not row or row.place ~= WAITING then return end
  local reason, pending = wait_reason(row)
  if reason == 'children' and arrived_now >= tonumber(pending) then stop_waiting(parent, row) end
end

function free_unique(id, head)
  local holder = get(uniques, head.unique)
  if holder and sub(holder, 1, ID_END) == id then set(uniques, head.unique, false) end
end

function free_and_deliver(id, head, slot, word, result)
  if head.plain then return end
  if head.unique ~= '' and head.scope ~= SCOPE_WINDOW then free_unique(id, head) end
  if slot then hand_on_slot(head) end
  if head.parent ~= '' then deliver(id, head, word, result) end
end

-- part: take_back_delivery
-- gives: take_back_delivery
-- needs: int reads writes delivered drop_record hex
-- Remove the outcome that a job delivered to its parent, because the job will run again.
function take_back_delivery(id, head)
  if not drop_record(DELIVERED, head.parent .. '/' .. to_hex(id)) then return end
  local parent = from_hex(head.parent)
  set(delivered, parent, int(tonumber(get(delivered, parent)) - 1))
end

-- part: remove_job
-- gives: REMOVE_MAX_DELIVERIES remove_job
-- needs: call builtins key cache reads writes jobs ended tries delivered progress drop_record hex
REMOVE_MAX_DELIVERIES = 5000 -- removed by one call, which takes the server about 0.1 s

-- Remove a job and all that belongs to it; return whether everything is removed, and how many deliveries were, at most
-- `most`.
function remove_job(id, most)
  local removed = 0
  if get(delivered, id) then
    local prefix = to_hex(id) .. '/'
    local names = call('ZRANGEBYLEX', key('names', DELIVERED), '[' .. prefix, '(' .. to_hex(id) .. '0', 'LIMIT', 0, most)
    for i = 1, #names do drop_record(DELIVERED, names[i]) end
    removed = #names
    if removed == most then return false, removed end
    for name, score in pairs(zset('names', DELIVERED).changed) do -- delivered by this call
      if score and sub(name, 1, 33) == prefix then drop_record(DELIVERED, name) end
    end
    set(delivered, id, false)
  end
  set(jobs, id, false)
  set(ended, id, false)
  set(tries, id, false)
  set(progress, id, false)
  return true, removed
end
