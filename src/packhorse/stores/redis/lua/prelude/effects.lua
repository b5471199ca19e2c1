-- Effects by the number of the settlement or move to which they belong.

-- part: effects
-- gives: effects_by_number expectations_hold apply_effects
-- needs: builtins arguments head_in_part puts publish create
function effects_by_number(effects)
  local by, ids, created, heads_of_jobs = {}, {}, {}, {}
  for i = 1, effects.count do
    local number = tonumber(cell(effects, i, 1))
    local own = by[number] or {}
    by[number] = own
    local letter, options = match(cell(effects, i, 2), '^(.)(.*)$')
    local effect = { letter, options, cell(effects, i, 3), cell(effects, i, 4), cell(effects, i, 5) }
    own[#own + 1] = effect
    if letter == 'e' then
      local n = #ids + 1
      ids[n], created[n], heads_of_jobs[n] = effect[3], effect, head_in_part(effect[4])
    end
  end
  local known = prefetch_jobs(ids, heads_of_jobs)
  for n = 1, #ids do created[n].known, created[n].head = known[n], heads_of_jobs[n] end
  return by
end

function expectations_hold(own)
  local trial = {}
  for _, effect in ipairs(own) do
    if effect[1] == 'r' and not version_after_put(trial, effect[3], effect[4], effect[2]) then return false end
  end
  return true
end

function apply_effects(own)
  for _, effect in ipairs(own) do
    local letter, options, first, second, third = effect[1], effect[2], effect[3], effect[4], effect[5]
    if letter == 'e' then
      create(first, effect.known, effect.head, second, options)
    elseif letter == 'p' then
      publish(first, second, third)
    else
      apply_put(first, second, options, third)
    end
  end
end
