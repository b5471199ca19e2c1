-- Make dead or cancelled jobs ready again; return 1 or 0 for each.
-- args: targets:1
-- needs: builtins now arguments reads writes counts past_counts jobs ended records states tries_of_jobs moves note_change conclude
-- needs: uncount_in_group take_back_delivery unique_keys wait_for_children
local ids, heads, answers = column(targets, 1), {}, {}
prefetch(jobs, ids)
prefetch(ended, ids)

-- Remove the ended row of a job; return its head, or nil if the job cannot be replayed.
local function take_out(id)
  local record, row = get(jobs, id), get(ended, id)
  if not record or not row or sub(row, 1, 1) == DONE then return nil end
  local head = head_in(record)
  local bound = head.unique ~= '' and head.scope ~= SCOPE_WINDOW
  if bound and (holder_of(head.unique) or id) ~= id then return nil end
  if bound then take_unique(id, head) end
  uncount_in_group(row)
  local token = sub(row, ENDED_TOKEN_AT, ENDED_TOKEN_END) -- that of a dead job is among its tries
  if sub(row, 1, 1) == CANCELLED and token ~= NO_TOKEN then
    remember_try(id, token, sub(row, ENDED_COUNTERS_AT, ENDED_COUNTERS_END), '')
  end
  set(ended, id, false)
  count(head.queue, STATES[sub(row, 1, 1)], -1)
  count_left_end(head.queue, STATES[sub(row, 1, 1)])
  if not head.plain and head.parent ~= '' then take_back_delivery(id, head) end
  note_change('p', id)
  return head
end

-- Take out all jobs first: a parent waits for children that are replayed in the same call, wherever they are listed.
for i, id in ipairs(ids) do heads[i] = take_out(id) or false end
for i, id in ipairs(ids) do
  local head = heads[i]
  answers[i] = head and 1 or 0
  if head and (head.plain or not wait_for_children(id, head)) then admit_in_turn(id, head, stamp, NO_ATTEMPT) end
end
conclude()
return answers
