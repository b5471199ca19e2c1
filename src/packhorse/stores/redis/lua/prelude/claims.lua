-- The last claim of each worker: token(16) fence(8) number(8), and under 'fence' the highest fence ever given. A fence is a
-- time, so that it rises even if a failover lost the last ones.

-- part: claims
-- gives: last_claim remember_claim
-- needs: call builtins key int now
function last_claim(worker)
  local found = call('HMGET', key('claims'), worker, 'fence')
  local row, highest = found[1], tonumber(found[2] or 0)
  local last = { next_fence = max(now, highest + 1), token = false, fence = 0, number = 0 }
  if row then last.token, last.fence, last.number = sub(row, 1, TOKEN_END), unpacked('>dd', sub(row, FENCE_AT)) end
  return last
end

function remember_claim(worker, token, fence, number)
  call('HSET', key('claims'), worker, token .. pack('>dd', fence, number), 'fence', int(fence))
end
