-- The workers whose last beat is not over: for each seen(8) and what it said of itself.
local all, alive = call('HVALS', key('workers')), {}
for _, row in ipairs(all) do
  if unpacked('>d', row) > now then alive[#alive + 1] = sub(row, 9) end
end
return alive
