-- New jobs, from enqueue and from effects.
-- gives: expect_jobs holder_of take_unique wait_for_children create

-- Brings near what will be looked at; answers for each id whether it is taken, by a job or by the memory of one.
function expect_jobs(ids, heads_of_jobs)
  local stored, buried, known = fetch(jobs, ids), fetch(tombs, ids), {}
  for i = 1, #ids do known[i] = stored[i] or buried[i] end
  local keys, turns = {}, {}
  for i = 1, #heads_of_jobs do
    local head = heads_of_jobs[i]
    if not head.plain then
      if head.unique ~= '' then keys[#keys + 1] = head.unique end
      if head.lane ~= '' then turns[#turns + 1] = head.turn end
    end
  end
  if #keys > 0 then prefetch(uniques, keys) end
  if #turns > 0 then prefetch(held, turns) end
  return known
end

-- Who holds a unique key now: an id, or nil. Holders are kept as id(16) scope expiry(8).
function holder_of(unique)
  local text = get(uniques, unique)
  if not text then return nil end
  if sub(text, 17, 17) == 'w' and unpacked('>d', sub(text, 18, 25)) <= now then return nil end
  return sub(text, 1, 16)
end

function take_unique(id, head)
  local before = get(uniques, head.unique)
  if head.scope == 'w' then
    set(uniques, head.unique, id .. 'w' .. pack('>d', now + head.window))
    set(zset('windows'), head.unique, int(now + head.window))
  else
    set(uniques, head.unique, id .. head.scope)
    if before and sub(before, 17, 17) == 'w' then set(zset('windows'), head.unique, false) end
  end
end

-- Makes a job wait whose children have not all ended; answers whether it does.
function wait_for_children(id, head)
  if head.children == 0 or head.children <= tonumber(get(delivered, id) or 0) then return false end
  wait(id, head, 'children', false, NEVER, int(head.children) .. '\31\31\31\31')
  return true
end

-- Stores a job unless its id or unique key is taken; answers the job that stands for it and whether it was made.
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
  note('q', id)
  if not head.plain and wait_for_children(id, head) then return id, true end
  if due > now then
    set(zset('due', head.queue), order .. id, int(due))
    count(head.queue, 'scheduled', 1)
  else
    ask(id, head, stamp)
  end
  return id, true
end
