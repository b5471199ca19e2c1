-- Events of streams, the log of the life of jobs, and hints to those who listen.
-- gives: LIFECYCLE LOG publish offsets changes note packed_change append_to_log wake dropped_jobs look_for_watchers close
-- gives: conclude conclude_if_room
LIFECYCLE, LOG = 'packhorse.jobs', 10000
local VERSION = '\1' -- of the packed form, as in model/event.py
local CHANGES = { 'l', 'h', 'd', 'r', 'w', 'k', 'c', 'p', 'u', 'q', 's' } -- as they follow each other in one call

-- The next offset of a stream. One that begins at 1 may have lost its head to somebody's DEL: then the stream tells it.
local function next_offset(stream)
  local offset = call('HINCRBY', key('heads'), stream, 1)
  if offset == 1 then
    local last = call('XREVRANGE', key('stream', stream), '+', '-', 'COUNT', 1)[1]
    if last then
      offset = tonumber(match(last[1], '^%d+')) + 1
      call('HSET', key('heads'), stream, int(offset))
    end
  end
  return int(offset)
end

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

changes = {}
function note(change, id)
  local ids = changes[change]
  if not ids then
    ids = {}
    changes[change] = ids
  end
  ids[#ids + 1] = id
end

function packed_change(change, ids) return change .. pack('>I2', #ids) .. concat(ids) end

-- One entry for all changes of a call, if events are wanted.
function append_to_log(packed)
  if ARGV[2] ~= '1' then return end
  local offset = next_offset(LIFECYCLE)
  call('XADD', key('stream', LIFECYCLE), 'MAXLEN', '~', LOG, offset .. '-0', 't', stamp, 'd', VERSION .. packed)
end

local function write_log()
  local parts = {}
  for _, change in ipairs(CHANGES) do
    if changes[change] then parts[#parts + 1] = packed_change(change, changes[change]) end
  end
  if #parts > 0 then append_to_log(concat(parts)) end
end

-- One marker a queue wakes one worker; whoever leaves work behind puts it back.
function wake(queue)
  if call('LLEN', key('wake', queue)) == 0 then call('RPUSH', key('wake', queue), '1') end
end

-- Watched jobs that ended or were dropped in this call: one hint for all of them. The entry in `watches` of one that
-- ended stays a while: prune does not remove a job that has one.
local KEEP_WATCHED = 10000000 -- as in model/job.py
dropped_jobs = {}
local hint = false
function look_for_watchers()
  for _, gone in ipairs({ changes.d or {}, changes.k or {}, changes.c or {}, dropped_jobs }) do
    if #gone > 0 and call('HLEN', watched.key) > 1 then
      prefetch(watched, gone)
      for i = 1, #gone do
        local till = get(watched, gone[i])
        if till then
          hint = hint or tonumber(till) > now
          set(watched, gone[i], false)
          set(zset('watches'), gone[i], gone ~= dropped_jobs and int(min(tonumber(till), now + KEEP_WATCHED)))
        end
      end
    end
  end
end

-- Writes all that was decided, and says so to those who listen.
function close()
  flush()
  write_log()
  for queue in pairs(woken) do
    if total(queue, 'ready') > 0 then wake(queue) end
  end
  if hint then call('PUBLISH', key('ends'), '1') end
end

-- The end of a verb: what moves or ends jobs goes on when the server is full, what brings something new does not.
function conclude()
  look_for_watchers()
  commit_even_if_full()
  close()
end

function conclude_if_room()
  commit()
  close()
end
