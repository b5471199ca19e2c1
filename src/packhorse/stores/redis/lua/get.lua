-- All that is known of jobs: for each record, live row, end, tries, progress, deliveries and the score of its place.
-- args: targets:1
local ids, answers = column(targets, 1), {}
for _, from in ipairs({ jobs, live, ends, tries, progress, delivered }) do prefetch(from, ids) end

local function score(id, record, text)
  if text and sub(text, 33, 33) == 'l' then return get(leases, id) end
  if text and sub(text, 33, 33) == 's' then
    local row = row_of(text)
    return get(zset('due', row.head.queue), tail_of(row) .. id)
  end
  local head = head_in(record)
  return not text and head.flag ~= 'p' and get(zset('due', head.queue), fresh_member(id, record))
end

for i, id in ipairs(ids) do
  local record, text = get(jobs, id), get(live, id)
  if record then
    answers[i] = {
      record, text or '', get(ends, id) or '', get(tries, id) or '', get(progress, id), get(delivered, id) or '0',
      not get(ends, id) and score(id, record, text) or '',
    }
  else
    answers[i] = ''
  end
end
return answers
