-- Remove ended jobs beyond their keep, oldest first, and everything else that expired, of each kind at most as many as the
-- limit. Return how many jobs and how many others were removed, whether there may be more, and for each queue whose dead
-- jobs were removed its name, how many, and when the newest of them died.
-- args: limit remember_chosen remember_other log_max_events log_max_bytes
-- needs: call builtins key int now commit_even_if_full cache reads writes lists counts past_counts forget_empty_queues ended
-- needs: tombstones uniques delivered watched record_of drop_record log bounded_log close groups remove_job unique_keys
local GROUPS_PER_CALL, MAX_ENTRIES_READ = 500, 5000
local WINDOW_ENTRIES = min(limit + 1, 100) -- entries of a group read with one command
local removed, swept, looked, forgotten, more, removed_dead = 0, 0, 0, 0, false, {}
limit = tonumber(limit)

-- Return some fields of a hash, all if they are few; each call continues the scan of the last one.
local cursors = {}
local function some_of(name, many)
  local scan = call('HSCAN', key(name), call('HGET', key('serials'), 'scanned:' .. name) or '0', 'COUNT', many)
  cursors[name] = scan[1]
  return scan[2]
end

local watches = zset('watches')
local any_watches = call('ZCARD', watches.key) > 0
local function is_watched(id) return any_watches and tonumber(get(watches, id) or 0) > now end

-- The oldest good entry of a group that is beyond its keep, or nil; stale entries before it are removed.
local function candidate(group)
  while group.taken < group.length and looked < MAX_ENTRIES_READ do
    if not group.window or group.taken >= group.window_end then
      group.window_start = group.taken
      group.window = call('LRANGE', group.key, group.taken, group.taken + WINDOW_ENTRIES - 1)
      group.window_end = group.taken + #group.window
      prefetch(ended, group.window)
      prefetch(delivered, group.window)
    end
    local id = group.window[group.taken - group.window_start + 1]
    local row = get(ended, id)
    looked = looked + 1
    if row and sub(row, GROUP_AT, GROUP_END) == group.packed
      and unpacked('>I4', sub(row, POSITION_AT)) == (group.base + group.taken) % 4294967296 then
      local finished = (unpacked('>d', sub(row, FINISHED_AT, FINISHED_END)))
      local over = group.kept > group.count or finished + group.age <= now
      if over and not is_watched(id) then return { id, row, finished } end
      return nil -- a watched job delays those behind it, for some seconds
    end
    group.taken = group.taken + 1
  end
  return nil
end

local function write_tombstone(id, row)
  local chosen = math.floor(byte(id, 7) / 16) == 8
  local till = now + (chosen and remember_chosen or remember_other)
  set(tombstones, id, sub(row, ENDED_TOKEN_AT, ENDED_TOKEN_END) .. sub(row, 1, 1) .. pack('>d', till))
  push(list('tombstones', chosen and 'chosen' or 'other'), id)
end

local function count_dead(queue, died)
  local dead = removed_dead[queue]
  if not dead then
    dead = { count = 0, newest = 0 }
    removed_dead[queue] = dead
  end
  dead.count, dead.newest = dead.count + 1, max(dead.newest, died)
end

local function prune_jobs()
  local open = {}
  local all = some_of('retention_groups', GROUPS_PER_CALL)
  for i = 1, #all, 2 do
    local queue, verdict, most, age = match(all[i], '^([^\31]*)\31(.)\31(%d+)\31(%d+)$')
    if queue then
      local group = group_of(all[i])
      group.queue, group.verdict, group.count, group.age = queue, verdict, tonumber(most), tonumber(age)
      group.first = candidate(group)
      if group.first then open[#open + 1] = group end
    end
  end
  more = more or cursors.retention_groups ~= '0' or looked >= MAX_ENTRIES_READ
  while #open > 0 and removed < limit and forgotten < REMOVE_MAX_DELIVERIES do
    local at = 1
    for i = 2, #open do
      if open[i].first[3] < open[at].first[3] then at = i end
    end
    local group = open[at]
    local id, row = group.first[1], group.first[2]
    local gone, number = remove_job(id, REMOVE_MAX_DELIVERIES)
    forgotten = forgotten + number
    if gone then
      write_tombstone(id, row)
      count(group.queue, VERDICT_WORDS[group.verdict], -1)
      count_left_end(group.queue, VERDICT_WORDS[group.verdict])
      count_removed(group.queue)
      if group.verdict == DEAD then count_dead(group.queue, group.first[3]) end
      group.taken, group.kept, removed = group.taken + 1, group.kept - 1, removed + 1
      group.first = candidate(group)
    else
      group.first = nil -- a parent of many children: the next calls remove the rest of its deliveries
    end
    if not group.first then table.remove(open, at) end
  end
  if removed == limit or forgotten >= REMOVE_MAX_DELIVERIES then
    cursors.retention_groups, more = nil, true -- scan the same groups again
  end
end

local function count_swept(number)
  swept = swept + number
  more = more or number == limit
end

local function prune_tombstones(name)
  local order, number = list('tombstones', name), 0
  while number < limit do
    local id = front(order)
    local tombstone = id and get(tombstones, id)
    if not id or tombstone and unpacked('>d', sub(tombstone, TOMBSTONE_UNTIL_AT, TOMBSTONE_UNTIL_END)) > now then break end
    shift(order)
    if tombstone then set(tombstones, id, false) end
    number = number + 1
  end
  count_swept(number)
end

local function each_over(index, forget_one)
  local over = call('ZRANGEBYSCORE', key(index), '-inf', int(now), 'LIMIT', 0, limit)
  for i = 1, #over do
    set(zset(index), over[i], false)
    forget_one(over[i])
  end
  count_swept(#over)
end

local function prune_claims()
  local some = some_of('claims', 100)
  for i = 1, #some, 2 do
    local text = some[i + 1]
    if #text == CLAIM_BYTES and unpacked('>d', sub(text, FENCE_AT, FENCE_END)) + remember_other <= now then
      set(hash('claims'), some[i], false)
    end
  end
end

prune_tombstones('chosen')
prune_tombstones('other')
prune_jobs()
each_over('expiries', function(member)
  local kind, name = match(member, '^([^\31]*)\31(.*)$')
  local record = record_of(kind, name)
  if record and record.gone then drop_record(kind, name) end
end)
each_over('watches', function(id) set(watched, id, false) end)
each_over('beats', function(worker) set(hash('workers'), worker, false) end)
each_over('windows', function(unique)
  if get(uniques, unique) and not holder_of(unique) then set(uniques, unique, false) end
end)
prune_claims()
local log_first = first_of_bounded_log(tonumber(log_max_events), tonumber(log_max_bytes))
commit_even_if_full()
close()
call('XTRIM', key('stream', LIFECYCLE), 'MINID', int(log_first) .. '-0')
forget_empty_queues()
for name, cursor in pairs(cursors) do call('HSET', key('serials'), 'scanned:' .. name, cursor) end
local dead_rows = {}
for queue, dead in pairs(removed_dead) do
  local at = #dead_rows
  dead_rows[at + 1], dead_rows[at + 2], dead_rows[at + 3] = queue, dead.count, int(dead.newest)
end
return { removed, swept, more and 1 or 0, dead_rows }
