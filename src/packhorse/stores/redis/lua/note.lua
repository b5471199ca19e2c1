-- Keep the latest progress of running jobs; answers a letter each: written, lost.
-- args: notes:3
local ids, answers = column(notes, 1), {}
prefetch(live, ids)
for i, id in ipairs(ids) do
  if leased(id, cell(notes, i, 2)) then
    set(progress, id, cell(notes, i, 3))
    answers[i] = 'W'
  else
    answers[i] = 'L'
  end
end
conclude_if_room()
return concat(answers)
