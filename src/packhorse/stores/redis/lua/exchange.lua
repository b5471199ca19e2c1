-- Write outcomes with their effects, then lease ready jobs.
-- args: worker token lease number again max_bytes keeps:1 settlements:2 effects:5 shares:3
-- needs: call builtins key int now arguments commit_even_if_full claims reads writes lists counts write_counts flush
-- needs: jobs live ended running delivered records claimed_records live_rows parts_of_rows tries_of_jobs stale_entries
-- needs: woken moves wait hand_on_slot record_of changes note_change close watchers groups end_job free_and_deliver effects
-- A settlement is an id, and token(16) outcome. An outcome is a letter, the number of its keep in two bytes, the rest, and
-- a last byte that differs from job to job.
-- An effect is the number of its settlement, a letter with options, and three values.
-- A share is a queue, a count, and the most it may get (empty: no limit).
local MAX_ENTRIES_TAKEN = 5000 -- entries taken from lists in one call, stale ones included

-- `tail` is the reason \31 and, with a '=' before it, the result.
local function end_with(id, row, verdict, keep, tail)
  local head, shared = row.head, row.front
  shared.proof = shared.proof or shared.token .. stamp .. shared.counters
  remove(live, id)
  end_job(id, head, verdict, keep, shared.proof, tail)
  if not head.plain then
    free_and_deliver(id, head, row.slot, VERDICT_WORDS[verdict], verdict == DONE and #tail > 1 and sub(tail, 3))
  end
end

-- The functions of outcomes take the job's id, its row, the rest of the outcome, and its keep.
local outcomes = {}

outcomes[byte('d')] = function(id, row, rest, keep) end_with(id, row, DONE, keep, rest) end

outcomes[byte('k')] = function(id, row, rest, keep)
  local reason, failure = match(rest, '^([^\31]*)\31(.*)$')
  remember_try(id, row.token, row.counters, failure)
  end_with(id, row, DEAD, keep, reason .. '\31')
end

outcomes[byte('c')] = function(id, row, failure, keep)
  if failure ~= '' then remember_try(id, row.token, row.counters, failure) end
  end_with(id, row, CANCELLED, keep, '\31')
end

outcomes[byte('r')] = function(id, row, rest)
  local charged, delay, failure = match(rest, '^(.)(%d+)\31(.*)$')
  remember_try(id, row.token, row.counters, failure)
  if row.cancelling then return end_with(id, row, CANCELLED, cell(keeps, 1, 1), '\31') end
  local counters = charged == '1' and row.counters or uncharged(row.counters)
  note_change('r', id)
  if tonumber(delay) > 0 then return schedule(id, row.head, now + delay, row.slot, counters) end
  proceed(id, row.head, row.slot, counters, stamp)
end

local function there_already(id, reason, about)
  local children, after, kind, name = match(about, '^([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)')
  if reason == 'children' then return tonumber(get(delivered, id) or 0) >= tonumber(children) end
  return reason == 'signal' and version_of(kind, name) > tonumber(after)
end

outcomes[byte('w')] = function(id, row, rest)
  local reason, about = match(rest, '^([^\31]*)\31(.*)$')
  remember_try(id, row.token, row.counters, '')
  if row.cancelling then return end_with(id, row, CANCELLED, cell(keeps, 1, 1), '\31') end
  local counters = uncharged(row.counters)
  if there_already(id, reason, about) then
    note_change('r', id)
    return proceed(id, row.head, row.slot, counters, stamp)
  end
  note_change('w', id)
  local slot = row.slot
  if slot and reason == 'children' then -- the children may wait for the same lane
    hand_on_slot(row.head)
    slot = false
  end
  wait(id, row.head, reason, slot, counters, about)
end

local GOING_ON = { [byte('r')] = true, [byte('w')] = true }
local function settle(id, data, own, row)
  local token, seen = sub(data, 1, TOKEN_END), live.seen[id]
  if seen ~= nil then row = seen and row_of(seen) end -- changed by this call
  if not row or row.token ~= token or row.place ~= RUNNING then return settled_by(id, token) and 'R' or 'L' end
  local letter, high, low = byte(data, OUTCOME_AT, KEEP_END)
  local step = letter == OUTCOME_HELD and tonumber(sub(data, OUTCOME_REST_AT, OUTCOME_REST_END))
  if step and step <= step_in(row.text) then return 'R' end
  if own and not expectations_hold(own) then return 'C' end
  local goes_on = GOING_ON[letter]
  if goes_on and row.cancelling then own = nil end -- it ends as cancelled
  if own and goes_on then apply_effects(own) end -- the effects may write what the job waits for
  if step then
    set(live, id, sub(row.text, 1, COUNTERS_END) .. pack('>I4', step) .. sub(row.text, HEAD_AT))
    note_change('h', id)
  else
    local tally = row.head.tally
    tally.running = tally.running - 1
    live.seen[id] = row.text -- for the case that the same id follows in this call
    remove(running, id)
    outcomes[letter](id, row, sub(data, OUTCOME_REST_AT, OUTCOME_REST_END), ARGV[keeps.first + high * 256 + low - 1])
  end
  if own and not goes_on then apply_effects(own) end -- an effect may take the unique key of this job
  return 'W'
end

-- Return the rows of settled jobs; prefetch the jobs that may get their lane slots.
local function rows_of(ids)
  local texts, settled, successors = fetch(live, ids), {}, {}
  for i = 1, #ids do
    local row = texts[i] and row_of(texts[i])
    settled[i] = row
    local successor = row and row.slot and front(lane_list(row.head))
    if successor then successors[#successors + 1] = successor end
  end
  if #successors > 0 then prefetch(live, successors) end
  return settled
end

local function settle_all()
  local verdicts, by = {}, effects.count > 0 and effects_by_number(effects) or {}
  local ids, first = column(settlements, 1), settlements.first
  local settled = rows_of(ids)
  for i = 1, #ids do verdicts[i] = settle(ids[i], ARGV[first + 2 * i - 1], by[i], settled[i]) end
  return concat(verdicts)
end

-- The claim follows the border, because jobs that were settled may be leased at once. Its reads cannot fail.
local taken, bodies, givers_of, ready_lists_of, passed, popped, paused = {}, {}, {}, {}, 0, {}, {}

-- Return whether a record fits into the rest of the byte limit: the first one always does, and after one that does not,
-- none does.
local bytes_left, any_fits, over = tonumber(max_bytes), false, false
local function fits(record)
  if not record then return true end
  bytes_left = bytes_left - bytes_in(record)
  over = over or any_fits and bytes_left < 0
  any_fits = true
  return not over
end

local function is_paused(queue)
  if paused[queue] == nil then paused[queue] = call('SISMEMBER', key('paused'), queue) == 1 end
  return paused[queue]
end

local priorities = {}
local function priorities_of(queue)
  if not priorities[queue] then priorities[queue] = call('ZRANGE', key('priorities', queue), 0, -1) end
  return priorities[queue]
end

-- Take those of these ids that fit, and put the others back at the head of their list.
local function take_fitting(ready_list, ids, tally)
  local records, fitting = fetch(jobs, ids), #ids
  for i = 1, #ids do
    if not fits(records[i]) then
      fitting = i - 1
      break
    end
    local n = #taken + 1
    taken[n], bodies[n], givers_of[n], ready_lists_of[n] = ids[i], records[i], tally, ready_list
  end
  for i = #ids, fitting + 1, -1 do call('LPUSH', key('ready', ready_list), ids[i]) end
  popped[ready_list] = popped[ready_list] - (#ids - fitting)
end

-- Take from the head of one list; return how many entries were good and whether the list is empty now.
local function take_from(queue, ready_list, wanted)
  local before, tally = #taken, tally_of(queue)
  while #taken - before < wanted and passed < MAX_ENTRIES_TAKEN and not over do
    local batch = min(wanted - (#taken - before), READ_TOGETHER)
    local got = call('LPOP', key('ready', ready_list), batch)
    if not got then return #taken - before, true end
    passed = passed + #got
    popped[ready_list] = (popped[ready_list] or 0) + #got
    local good = got
    if any_stale() then
      good = {}
      for i = 1, #got do
        if not skip_stale('ready:' .. ready_list, got[i]) then good[#good + 1] = got[i] end
      end
    end
    take_fitting(ready_list, good, tally)
    if #got < batch and not over then return #taken - before, true end
  end
  return #taken - before, false
end

local function take(queue, wanted)
  local count_taken = 0
  for _, priority in ipairs(priorities_of(queue)) do
    if wanted <= count_taken or passed >= MAX_ENTRIES_TAKEN or over then break end
    local got, empty = take_from(queue, queue .. '\31' .. priority, wanted - count_taken)
    count_taken = count_taken + got
    if empty then call('ZREM', key('priorities', queue), priority) end
  end
  if count_taken > 0 then count(queue, 'ready', -count_taken) end
  return count_taken
end

local function take_shares()
  local wanted, got, givers = 0, {}, 0
  for i = 1, shares.count do
    local queue, share = cell(shares, i, 1), tonumber(cell(shares, i, 2))
    wanted = wanted + share
    got[i] = not is_paused(queue) and take(queue, share) or 0
  end
  for i = 1, shares.count do
    local queue, most = cell(shares, i, 1), tonumber(cell(shares, i, 3))
    local left = wanted - #taken
    if left > 0 and not is_paused(queue) then
      got[i] = got[i] + take(queue, most and min(left, most - got[i]) or left)
    end
    if got[i] > 0 then givers = givers + 1 end
  end
  return givers
end

-- Return the live row of a job that is leased for the first time; plain jobs with the same head share it.
local rows_of_plain = {}
local function first_row(holder, record, ready_list)
  local text = head_text_in(record)
  if byte(text, 2) == UNREADABLE_QUEUE and sub(text, 1, 3) == 'p?\31' then
    text = 'p' .. ready_list .. '\31?\31\0310\30!'
  end
  local row = rows_of_plain[text]
  if not row then
    row = holder .. (has_lane(text) and '1' or '0') .. FIRST_ATTEMPT .. NO_STEP .. text .. stamp .. sub(text, -1)
    if byte(record) == FORM_READY then rows_of_plain[text] = row end
  end
  return row
end

-- Lease the jobs that were taken; return ids, counters, times of becoming ready, and records. A time is empty if the
-- record tells it. A head is read only if its unique key becomes free.
local function lease_all()
  local till, holder = int(now + lease), token .. worker .. RUNNING
  local ids, counters, sinces, records, n = {}, {}, {}, {}, 0
  -- Everything else is written by now. A job that ended is not leased, even if a list still has its id.
  local rows_before, over = fetch(live, taken), fetch(ended, taken)
  for i = 1, #taken do
    local id, record, text = taken[i], bodies[i], rows_before[i]
    if record and not over[i] and (not text or byte(text, PLACE_AT) == READY_BYTE) then
      n = n + 1
      ids[n], records[n] = id, record
      if text then
        local before = counters_in(text)
        counters[n] = before == NO_ATTEMPT and FIRST_ATTEMPT
          or pack('>I4', attempt_in(before) + 1) .. sub(before, LOST_AT, LOST_END)
        sinces[n] = since_in(text)
        local head_text, mark = head_text_in(record), sub(text, MARK_AT, MARK_AT)
        add(live, id, holder .. mark .. counters[n] .. NO_STEP .. head_text .. stamp .. sub(head_text, -1))
      else
        counters[n], sinces[n] = FIRST_ATTEMPT, ''
        add(live, id, first_row(holder, record, ready_lists_of[i]))
      end
      add_score(running, id, till)
      if unique_until_started(record) then free_unique(id, head_in(record)) end
      local tally = givers_of[i]
      tally.running = tally.running + 1
    end
  end
  if n > 0 then changes.s = ids end
  return ids, counters, sinces, records
end

-- Make a job ready again whose lease was lost with a reply and does not fit now; the attempt does not count.
local function give_back(id, row)
  settle(id, token .. 'r\0\0' .. '00\31' .. sub(id, -1), nil, row)
end

-- Return the leases of an earlier claim with this token that are still held.
local function held_by_token()
  local ids, counters, spans, records = {}, {}, {}, {}
  local all = call('ZRANGE', running.key, 0, -1, 'WITHSCORES')
  for first = 1, #all, 2 * CHUNK do
    local some = {}
    for i = first, min(first + 2 * CHUNK - 1, #all), 2 do some[#some + 1] = all[i] end
    prefetch(live, some)
  end
  for i = 1, #all, 2 do
    local text = get(live, all[i])
    local record = text and sub(text, 1, WORKER_END) == token .. worker and get(jobs, all[i])
    if record and not fits(record) then
      give_back(all[i], row_of(text))
    elseif record then
      ids[#ids + 1], records[#records + 1] = all[i], record
      counters[#counters + 1] = sub(text, COUNTERS_AT, COUNTERS_END)
      spans[#spans + 1] = since_in(text) .. pack('>d', tonumber(all[i + 1]))
    end
  end
  return ids, counters, spans, records
end

local function claim()
  local last = last_claim(worker)
  if last.token == token then
    local ids, counters, spans, records = held_by_token()
    return ids, counters, spans, {}, records, last.fence
  end
  if tonumber(number) < last.number then return {}, {}, {}, {}, {}, 0 end -- outdated: a later claim was answered
  local givers = take_shares()
  local ids, counters, sinces, records = lease_all()
  if #ids > 0 or again == '1' then remember_claim(worker, token, last.next_fence, number) end
  for ready_list, number in pairs(popped) do
    local queue, priority = match(ready_list, '^([^\31]*)\31(.*)$')
    call('HINCRBY', key('popped', queue), priority, number)
  end
  return ids, counters, {}, givers > 1 and sinces or {}, records, last.next_fence
end

local function left_behind()
  local more, next_due = false, nil
  for i = 1, shares.count do
    local queue = cell(shares, i, 1)
    if not is_paused(queue) and (total(queue, 'ready') > 0 or due_moved[queue].more) then
      more = true
      woken[queue] = true
    end
    local first = call('ZRANGEBYSCORE', key('scheduled', queue), '(' .. int(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if first[2] then next_due = min(next_due or tonumber(first[2]), tonumber(first[2])) end
  end
  return more, next_due
end

for i = 1, shares.count do move_due(cell(shares, i, 1)) end
local verdicts = settlements.count > 0 and settle_all() or ''
notify_watchers()
commit_even_if_full()
if shares.count == 0 then
  close()
  return { int(now), verdicts, '', '', '', {}, '0', '', {}, '0' }
end
flush()
local ids, counters, spans, sinces, records, fence = claim()
flush()
local more, next_due = left_behind()
close()
return {
  int(now), verdicts, concat(ids), concat(counters), concat(spans), sinces, more and '1' or '0',
  next_due and int(next_due) or '', records, int(fence),
}
