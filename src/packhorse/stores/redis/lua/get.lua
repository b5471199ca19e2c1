-- Return for each job its record, live row, ended row, tries, progress, number of deliveries, and score in its set. Without
-- bodies (0), records come without payload, ended rows without result, and failures end before their tracebacks.
-- args: bodies targets:1
-- needs: builtins arguments cache reads jobs live ended running tries delivered progress records live_rows tail_of
-- needs: scheduled_member
local ids, answers = column(targets, 1), {}
for _, from in ipairs({ jobs, live, ended, tries, progress, delivered }) do prefetch(from, ids) end

local function score(id, record, text)
  if text and byte(text, PLACE_AT) == RUNNING_BYTE then return get(running, id) end
  if text and byte(text, PLACE_AT) == SCHEDULED_BYTE then
    local row = row_of(text)
    return get(zset('scheduled', row.head.queue), tail_of(row) .. id)
  end
  local head = head_in(record)
  return not text and head.flag ~= 'p' and get(zset('scheduled', head.queue), scheduled_member(id, record))
end

-- A record whose head is not readable comes whole.
local function without_payload(record)
  local first = byte(record) == FORM_READY and READY_HEAD_AT or LATER_HEAD_AT
  local stop = find(record, HEAD_STOP, first, true)
  local head = stop and sub(record, first, stop - 1) or ''
  local headers = match(head, '^[pd][^\31]*\31%d+\31[^\31]*\31[^\31]*\31(%d+)$')
    or match(head, '^[xs][^\31]*\31%d+\31[^\31]*\31%d+\31[^\31]*\31[^\31]*\31(%d+)\31')
  local last = headers and stop + 1 + headers
  if not last or last > #record - 8 then return record end
  return sub(record, 1, last) .. sub(record, -8)
end

local function without_result(row)
  local stop = find(row, '\31', GROUP_END + 1, true)
  return stop and stop < #row - 4 and sub(row, 1, stop) .. sub(row, POSITION_AT) or row
end

-- A quote within a text of JSON has a backslash before it, so the name of the field is found.
local function without_tracebacks(packed)
  local kept, at = {}, 1
  while at + TRY_BYTES - 1 <= #packed do
    local stop = at + TRY_BYTES + unpacked('>I4', sub(packed, at + TRY_LENGTH_FROM, at + TRY_LENGTH_TO))
    local failure = sub(packed, at + TRY_BYTES, stop - 1)
    local trace = find(failure, ',"traceback":', 1, true)
    if trace then failure = sub(failure, 1, trace - 1) .. '}' end
    kept[#kept + 1] = sub(packed, at, at + TRY_LENGTH_FROM - 1) .. pack('>I4', #failure) .. failure
    at = stop
  end
  return concat(kept)
end

for i, id in ipairs(ids) do
  local record, text = get(jobs, id), get(live, id)
  if record then
    local end_row, tried = get(ended, id) or '', get(tries, id) or ''
    answers[i] = {
      record, text or '', end_row, tried, get(progress, id), get(delivered, id) or '0',
      end_row == '' and score(id, record, text) or '',
    }
    if bodies == '0' then
      answers[i][1], answers[i][3] = without_payload(record), without_result(end_row)
      answers[i][4] = without_tracebacks(tried)
    end
  else
    answers[i] = ''
  end
end
return answers
