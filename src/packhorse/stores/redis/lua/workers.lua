-- Return the workers whose last beat has not expired: for each the time it was seen(8) and its description.
-- needs: call builtins key now
local all, alive = call('HVALS', key('workers')), {}
for _, row in ipairs(all) do
  if unpacked('>d', row) > now then alive[#alive + 1] = sub(row, 9) end
end
return alive
