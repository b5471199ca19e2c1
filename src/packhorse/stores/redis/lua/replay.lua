-- Make dead or cancelled jobs ready again; answers 1 or 0 for each.
-- args: targets:1
local ids, heads, answers = column(targets, 1), {}, {}
prefetch(jobs, ids)
prefetch(ends, ids)

-- Takes a job out of its end; answers its head, or nil if it stays.
local function take_out(id)
  local record, row = get(jobs, id), get(ends, id)
  if not record or not row or sub(row, 1, 1) == 'd' then return nil end
  local head = head_in(record)
  local bound = head.unique ~= '' and head.scope ~= 'w'
  if bound and (holder_of(head.unique) or id) ~= id then return nil end
  if bound then take_unique(id, head) end
  unshelve(row)
  local token = sub(row, 2, 17) -- a dead job's is among its tries
  if sub(row, 1, 1) == 'c' and token ~= NO_TOKEN then remember(id, token, sub(row, 26, 31), '') end
  set(ends, id, false)
  count(head.queue, STATES[sub(row, 1, 1)], -1)
  if not head.plain and head.parent ~= '' then take_back_delivery(id, head) end
  note('p', id)
  return head
end

-- A parent waits for children that are replayed in the same call, also for those named after it.
for i, id in ipairs(ids) do heads[i] = take_out(id) or false end
for i, id in ipairs(ids) do
  local head = heads[i]
  answers[i] = head and 1 or 0
  if head and (head.plain or not wait_for_children(id, head)) then ask(id, head, stamp, NEVER) end
end
conclude()
return answers
