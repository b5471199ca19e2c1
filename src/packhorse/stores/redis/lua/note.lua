-- Store the latest progress of running jobs; return a letter for each: written, lost.
-- args: notes:3
-- needs: builtins arguments reads writes live progress leased conclude_if_room
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
