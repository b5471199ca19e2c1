-- Events of streams, the stream of changes of jobs, and wake-ups.

-- part: log
-- gives: LIFECYCLE LOG_MAX_EVENTS packed_change append_to_log
-- needs: call builtins key int now
LIFECYCLE, LOG_MAX_EVENTS = 'packhorse.jobs', 10000
local VERSION = '\1' -- of the packed form, as in model/event.py

-- Return the next offset of a stream. If the counter begins at 1, it may have been deleted: then ask the stream.
local function next_offset(stream)
  local offset = call('HINCRBY', key('stream_heads'), stream, 1)
  if offset == 1 then
    local last = call('XREVRANGE', key('stream', stream), '+', '-', 'COUNT', 1)[1]
    if last then
      offset = tonumber(match(last[1], '^%d+')) + 1
      call('HSET', key('stream_heads'), stream, int(offset))
    end
  end
  return int(offset)
end

function packed_change(change, ids) return change .. pack('>I2', #ids) .. concat(ids) end

-- Append one entry for all changes of a call, if events are recorded.
function append_to_log(packed)
  if ARGV[2] ~= '1' then return end
  local offset = next_offset(LIFECYCLE)
  call('XADD', key('stream', LIFECYCLE), 'MAXLEN', '~', LOG_MAX_EVENTS, offset .. '-0', 't', stamp, 'd', VERSION .. packed)
end

-- part: head_of_stream
-- gives: head_of_stream
-- needs: call builtins key
-- Return the last offset that was given in a stream, 0 if none was. The counter may have been deleted.
function head_of_stream(stream)
  local head = call('HGET', key('stream_heads'), stream)
  if head then return tonumber(head) end
  local last = call('XREVRANGE', key('stream', stream), '+', '-', 'COUNT', 1)[1]
  return last and tonumber(match(last[1], '^%d+')) or 0
end

-- part: bounded_log
-- gives: first_of_bounded_log
-- needs: call builtins key int log head_of_stream
local MAX_SAMPLES = 128

-- Return the offset of the first entry to keep in the log: the newest stay, up to so many and about so many bytes.
-- Some entries, evenly spaced, stand for all: a log that is full is not read whole at each prune.
function first_of_bounded_log(max_events, max_bytes)
  local stream, last = key('stream', LIFECYCLE), head_of_stream(LIFECYCLE)
  local oldest = call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
  if not oldest then return 0 end
  local first = max(tonumber(match(oldest[1], '^%d+')), last - max_events + 1)
  local stride, bytes, offset = math.ceil((last - first + 1) / MAX_SAMPLES), 0, last
  while offset >= first do
    local entry = call('XREVRANGE', stream, int(offset) .. '-0', '-', 'COUNT', 1)[1]
    if not entry then break end
    for i = 2, #entry[2], 2 do bytes = bytes + stride * #entry[2][i] end
    if bytes > max_bytes then return min(offset + 1, last) end
    offset = offset - stride
  end
  return first
end

-- part: publish
-- gives: offsets publish
-- needs: call key now writers log
local published = {}
offsets = {}

function publish(stream, data, name)
  published[#published + 1] = { stream, data, name }
end

writers[#writers + 1] = function()
  for i = 1, #published do
    local stream, data, name = published[i][1], published[i][2], published[i][3]
    local offset = next_offset(stream)
    if name == '' then
      call('XADD', key('stream', stream), offset .. '-0', 't', stamp, 'd', data)
    else
      call('XADD', key('stream', stream), offset .. '-0', 't', stamp, 'd', data, 'k', name)
    end
    offsets[#offsets + 1] = offset
  end
  published = {}
end

-- part: changes
-- gives: changes
changes = {}

-- part: note_change
-- gives: note_change
-- needs: changes
function note_change(change, id)
  local ids = changes[change]
  if not ids then
    ids = {}
    changes[change] = ids
  end
  ids[#ids + 1] = id
end

-- part: wake
-- gives: wake
-- needs: call key
-- One marker in the list of a queue wakes one worker; a worker that leaves jobs behind puts it back.
function wake(queue)
  if call('LLEN', key('wake', queue)) == 0 then call('RPUSH', key('wake', queue), '1') end
end

-- part: close
-- gives: close
-- needs: call builtins key write_counts flush woken log changes wake
local CHANGES = { 'l', 'h', 'd', 'r', 'w', 'k', 'c', 'p', 'u', 'q', 's' } -- in the order of their causes

local function write_log()
  local parts = {}
  for _, change in ipairs(CHANGES) do
    if changes[change] then parts[#parts + 1] = packed_change(change, changes[change]) end
  end
  if #parts > 0 then append_to_log(concat(parts)) end
end

local hint = false

-- Write all changes, and wake workers and callers.
function close()
  flush()
  write_log()
  for queue in pairs(woken) do
    if total(queue, 'ready') > 0 then wake(queue) end
  end
  if hint then call('PUBLISH', key('ended'), '1') end
end

-- part: watchers
-- gives: dropped_jobs notify_watchers
-- needs: call builtins int now cache reads writes watched changes close
-- Publish one hint if watched jobs ended or were dropped in this call. The entry of an ended job in `watches` stays for a
-- while, because prune does not remove a job that has one.
local KEEP_WATCHED_US = 10000000 -- as in model/job.py
dropped_jobs = {}

function notify_watchers()
  for _, gone in ipairs({ changes.d or {}, changes.k or {}, changes.c or {}, dropped_jobs }) do
    if #gone > 0 and call('HLEN', watched.key) > 1 then
      prefetch(watched, gone)
      for i = 1, #gone do
        local till = get(watched, gone[i])
        if till then
          hint = hint or tonumber(till) > now
          set(watched, gone[i], false)
          set(zset('watches'), gone[i], gone ~= dropped_jobs and int(min(tonumber(till), now + KEEP_WATCHED_US)))
        end
      end
    end
  end
end

-- part: conclude
-- gives: conclude
-- needs: commit_even_if_full close watchers
-- End a script: one that moves or ends jobs works on a full server, one that stores something new does not.
function conclude()
  notify_watchers()
  commit_even_if_full()
  close()
end

-- part: conclude_if_room
-- gives: conclude_if_room
-- needs: call close
function conclude_if_room()
  commit()
  close()
end
