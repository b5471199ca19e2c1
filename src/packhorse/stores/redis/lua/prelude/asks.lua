-- What is remembered of asks: under each worker token(16) fence(8) number(8) of its last one, and under 'fence' the
-- highest fence that was given. A fence is a moment, so that a tail lost in a failover is passed by, and never goes back.
-- gives: last_ask remember_ask
function last_ask(worker)
  local found = call('HMGET', key('asks'), worker, 'fence')
  local row, highest = found[1], tonumber(found[2] or 0)
  local last = { next_fence = max(now, highest + 1), token = false, fence = 0, number = 0 }
  if row then last.token, last.fence, last.number = sub(row, 1, 16), unpacked('>dd', sub(row, 17)) end
  return last
end

function remember_ask(worker, token, fence, number)
  call('HSET', key('asks'), worker, token .. pack('>dd', fence, number), 'fence', int(fence))
end
