-- Write effects that belong to no lease, each move whole or not at all; return a letter for each.
-- args: moves effects:5
-- needs: builtins conclude_if_room effects
-- An effect is the number of its move, a letter with options, and three values.
local by, verdicts = effects_by_number(effects), {}
for i = 1, tonumber(moves) do
  local own = by[i] or {}
  verdicts[i] = expectations_hold(own) and 'W' or 'C'
  if verdicts[i] == 'W' then apply_effects(own) end
end
conclude_if_room()
return concat(verdicts)
