-- Extend leases by a duration from now; return a letter for each: kept, cancelling, lost.
-- args: duration held_leases:2
-- needs: builtins int now arguments reads writes live running leased conclude
local ids, answers, till = column(held_leases, 1), {}, int(now + duration)
prefetch(live, ids)
for i, id in ipairs(ids) do
  local row = leased(id, cell(held_leases, i, 2))
  if row then
    set(running, id, till)
    answers[i] = row.cancelling and 'C' or 'K'
  else
    answers[i] = 'L'
  end
end
conclude()
return concat(answers)
