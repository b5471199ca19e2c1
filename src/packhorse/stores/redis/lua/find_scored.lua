-- Return a page of a sorted set behind a score and member: member and score of each. The entry with an infinite score,
-- which the layout adds to `running`, comes last and is left out.
-- args: kind name score member limit
-- needs: call builtins key
local full = key(kind, name ~= '' and name or nil)

-- Compare bytes, as the server orders members; Lua's own comparison depends on the locale.
local function behind_member(other)
  for i = 1, min(#other, #member) do
    local left, right = byte(other, i), byte(member, i)
    if left ~= right then return left > right end
  end
  return #other > #member
end

local function page(first)
  local some = call('ZRANGE', full, first, first + limit - 1, 'WITHSCORES')
  if some[#some] == 'inf' then some[#some], some[#some - 1] = nil, nil end
  return some
end

if score == '' then return page(0) end
local rank = tonumber(call('ZSCORE', full, member) or -1) == tonumber(score) and call('ZRANK', full, member)
if rank then return page(rank + 1) end
local found, from = {}, 0
while #found < 2 * limit do
  local some = call('ZRANGEBYSCORE', full, score, '(+inf', 'WITHSCORES', 'LIMIT', from, limit)
  for i = 1, #some, 2 do
    local passed = tonumber(some[i + 1]) == tonumber(score) and not behind_member(some[i])
    if not passed and #found < 2 * limit then
      found[#found + 1] = some[i]
      found[#found + 1] = some[i + 1]
    end
  end
  if #some < 2 * limit then break end
  from = from + limit
end
return found
