-- Creation of jobs, by enqueue and by effects.

-- part: unique_keys
-- gives: holder_of take_unique
-- needs: builtins int now cache reads writes uniques
-- Return the id of the job that holds a unique key now, or nil. Holders are stored as id(16) scope expiry(8).
function holder_of(unique)
  local text = get(uniques, unique)
  if not text then return nil end
  local windowed = sub(text, SCOPE_AT, SCOPE_AT) == SCOPE_WINDOW
  if windowed and unpacked('>d', sub(text, EXPIRY_AT, EXPIRY_END)) <= now then return nil end
  return sub(text, 1, ID_END)
end

function take_unique(id, head)
  local before = get(uniques, head.unique)
  if head.scope == SCOPE_WINDOW then
    set(uniques, head.unique, id .. SCOPE_WINDOW .. pack('>d', now + head.window))
    set(zset('windows'), head.unique, int(now + head.window))
  else
    set(uniques, head.unique, id .. head.scope)
    if before and sub(before, SCOPE_AT, SCOPE_AT) == SCOPE_WINDOW then set(zset('windows'), head.unique, false) end
  end
end

-- part: wait_for_children
-- gives: wait_for_children
-- needs: int reads delivered wait
-- Make a job wait if not all its children have ended; return whether it waits.
function wait_for_children(id, head)
  if head.children == 0 or head.children <= tonumber(get(delivered, id) or 0) then return false end
  wait(id, head, 'children', false, NO_ATTEMPT, int(head.children) .. '\31\31\31\31')
  return true
end

-- part: create
-- gives: prefetch_jobs create
-- needs: builtins int now cache reads writes counts jobs tombstones uniques lane_slots arrivals moves note_change unique_keys
-- needs: wait_for_children
-- Prefetch what creating these jobs reads; return for each id whether a job or a tombstone has it.
function prefetch_jobs(ids, heads_of_jobs)
  local stored, removed_before, known = fetch(jobs, ids), fetch(tombstones, ids), {}
  for i = 1, #ids do known[i] = stored[i] or removed_before[i] end
  local keys, lane_keys = {}, {}
  for i = 1, #heads_of_jobs do
    local head = heads_of_jobs[i]
    if not head.plain then
      if head.unique ~= '' then keys[#keys + 1] = head.unique end
      if head.lane ~= '' then lane_keys[#lane_keys + 1] = head.lane_key end
    end
  end
  if #keys > 0 then prefetch(uniques, keys) end
  if #lane_keys > 0 then prefetch(lane_slots, lane_keys) end
  return known
end

-- Store a job unless its id or unique key is taken; return the id of the new or existing job and whether it is new.
-- `part` is the record still without its moments, `later` is empty for the flag 'p', else `delay at`.
local PLAIN, made = '1' .. stamp, {}

function create(id, known, head, part, later)
  if known or made[id] then return id, false end
  local holder = head.unique ~= '' and holder_of(head.unique)
  if holder then return holder, false end
  local due, order, record = now, NO_STEP, nil
  if later == '' then
    record = PLAIN .. part
  elseif later == '0 0' then
    record = '2' .. stamp .. stamp .. order .. part
  else
    local delay, at = match(later, '^(%d+) (%d+)$')
    due = max(tonumber(at), now + delay)
    if due > now then order = pack('>I4', arrival() % 4294967296) end
    record = '2' .. stamp .. pack('>d', due) .. order .. part
  end
  add(jobs, id, record)
  made[id] = true
  if head.unique ~= '' then take_unique(id, head) end
  note_change('q', id)
  if not head.plain and wait_for_children(id, head) then return id, true end
  if due > now then
    set(zset('scheduled', head.queue), order .. id, int(due))
    count(head.queue, 'scheduled', 1)
  else
    admit_in_turn(id, head, stamp)
  end
  return id, true
end
