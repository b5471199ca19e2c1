-- Make dead or cancelled jobs ready again; answers 1 or 0 for each.
-- args: targets:1
local ids, answers = column(targets, 1), {}
prefetch(jobs, ids)
prefetch(ends, ids)

local function replay(id)
  local record, row = get(jobs, id), get(ends, id)
  if not record or not row or sub(row, 1, 1) == 'd' then return 0 end
  local head = head_in(record)
  local bound = head.unique ~= '' and head.scope ~= 'w'
  if bound and (holder_of(head.unique) or id) ~= id then return 0 end
  if bound then take_unique(id, head) end
  unshelve(row)
  local token = sub(row, 2, 17) -- a dead job's is among its tries
  if sub(row, 1, 1) == 'c' and token ~= NO_TOKEN then remember(id, token, sub(row, 26, 31), '') end
  set(ends, id, false)
  count(head.queue, STATES[sub(row, 1, 1)], -1)
  admit(id, head, stamp, NEVER)
  note('p', id)
  return 1
end

for i, id in ipairs(ids) do answers[i] = replay(id) end
conclude()
return answers
