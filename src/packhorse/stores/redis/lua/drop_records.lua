-- Remove records of a kind; return how many existed.
-- args: kind names:1
-- needs: arguments drop_record conclude
local there = 0
for i = 1, names.count do
  if drop_record(kind, cell(names, i, 1)) then there = there + 1 end
end
conclude()
return there
