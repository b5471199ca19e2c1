-- Keyed records: version(8) due(8) expires(8) value. Versions rise with every write, even after a drop.

-- part: record_of
-- gives: record_of version_of
-- needs: builtins now cache reads
function record_of(kind, name)
  local text = get(hash('records', kind), name)
  if not text then return nil end
  local version, due, expires = unpacked('>ddd', text)
  return { version = version, due = due, expires = expires, gone = expires > 0 and expires <= now }
end

-- Return the version of a record to compare, 0 if it does not exist or has expired.
function version_of(kind, name)
  local record = record_of(kind, name)
  return record and not record.gone and record.version or 0
end

-- part: drop_record
-- gives: drop_record
-- needs: call key int cache writes writers record_of
local dropped, risen -- the highest version of a dropped record: new versions are higher

local function highest_dropped()
  if not dropped then dropped = tonumber(call('HGET', key('serials'), 'dropped') or 0) end
  return dropped
end

writers[#writers + 1] = function()
  if risen then call('HSET', key('serials'), 'dropped', int(dropped)) end
  risen = false
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

-- part: put_record
-- gives: put_record
-- needs: builtins now cache reads writes members live live_rows stop_waiting record_of drop_record
local function next_version(kind, name)
  local record = record_of(kind, name)
  return max((record and record.version or highest_dropped()) + 1, now)
end

-- End the wait of jobs that wait for a newer version of this record.
local function release_waiting(kind, name, version)
  for _, id in ipairs(members(zset('on', kind .. '\31' .. name))) do
    local text = get(live, id)
    local row = text and row_of(text)
    if row and row.place == WAITING then
      local _, _, after = wait_reason(row)
      if tonumber(after) < version then stop_waiting(id, row) end
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

-- part: puts
-- gives: version_after_put apply_put
-- needs: builtins now record_of drop_record put_record
-- The options of a put: `expect due expires mark`; the mark is '=' if there is a value.
local function put_of(text)
  local expect, due, expires, mark = match(text, '^(%S*) (%d+) (%d+) (=?)$')
  return tonumber(expect), tonumber(due), tonumber(expires), mark == '='
end

-- Return the version after a put, 0 for a drop, or nil if the expectation fails; `trial` holds versions not yet written.
function version_after_put(trial, kind, name, text)
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
