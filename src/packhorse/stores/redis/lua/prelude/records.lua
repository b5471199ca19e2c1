-- Keyed records: version(8) due(8) expires(8) value. Versions rise with every write, also over a drop.
-- gives: record_of version_of drop_record put_record tried apply_put
function record_of(kind, name)
  local text = get(hash('records', kind), name)
  if not text then return nil end
  local version, due, expires = unpacked('>ddd', text)
  return { version = version, due = due, expires = expires, gone = expires > 0 and expires <= now }
end

-- The version that stands for a record when it is compared: none if it is absent or has expired.
function version_of(kind, name)
  local record = record_of(kind, name)
  return record and not record.gone and record.version or 0
end

local dropped, risen -- the highest version that was dropped: what is put again goes on above it
local function highest_dropped()
  if not dropped then dropped = tonumber(call('HGET', key('serials'), 'dropped') or 0) end
  return dropped
end

writers[#writers + 1] = function()
  if risen then call('HSET', key('serials'), 'dropped', int(dropped)) end
  risen = false
end

local function next_version(kind, name)
  local record = record_of(kind, name)
  return max((record and record.version or highest_dropped()) + 1, now)
end

function drop_record(kind, name)
  local record = record_of(kind, name)
  if not record then return false end
  if record.version > highest_dropped() then dropped, risen = record.version, true end
  set(hash('records', kind), name, false)
  set(zset('names', kind), name, false)
  if record.due > 0 then set(zset('dues', kind), name, false) end
  if record.expires > 0 then set(zset('expiries'), kind .. '\31' .. name, false) end
  return not record.gone
end

-- Jobs that wait for this record to pass a version below this one go on.
local function release_waiting(kind, name, version)
  for _, id in ipairs(members(zset('on', kind .. '\31' .. name))) do
    local text = get(live, id)
    local row = text and row_of(text)
    if row and row.place == 'w' then
      local _, _, after = why(row)
      if tonumber(after) < version then let_go(id, row) end
    end
  end
end

function put_record(kind, name, value, due, expires)
  local before, version = record_of(kind, name), next_version(kind, name)
  set(hash('records', kind), name, pack('>ddd', version, due, expires) .. value)
  set(zset('names', kind), name, 0)
  if due > 0 or before and before.due > 0 then set(zset('dues', kind), name, due > 0 and due) end
  if expires > 0 or before and before.expires > 0 then
    set(zset('expiries'), kind .. '\31' .. name, expires > 0 and expires)
  end
  if expires == 0 or expires > now then release_waiting(kind, name, version) end
  return version
end

-- How a put travels: `expect due expires mark`, the mark being '=' where there is a value.
local function put_of(text)
  local expect, due, expires, mark = match(text, '^(%S*) (%d+) (%d+) (=?)$')
  return tonumber(expect), tonumber(due), tonumber(expires), mark == '='
end

-- The version after a put, 0 for a drop, or nil where the expectation fails; `trial` holds versions not yet written.
function tried(trial, kind, name, text)
  local expect, _, expires, valued = put_of(text)
  local field = kind .. '\31' .. name
  local current = trial[field] or version_of(kind, name)
  if expect and expect ~= current then return nil end
  trial[field] = valued and (expires == 0 or expires > now) and max(current + 1, next_version(kind, name)) or 0
  return trial[field]
end

function apply_put(kind, name, text, value)
  local _, due, expires, valued = put_of(text)
  if valued then return put_record(kind, name, value, due, expires) end
  drop_record(kind, name)
  return 0
end
