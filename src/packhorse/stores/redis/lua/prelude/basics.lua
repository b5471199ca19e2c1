-- What all scripts use: names of keys, numbers, the time, arguments.

-- part: builtins
-- gives: sub find match format byte min max concat pack unpacked
sub, find, match, format, byte = string.sub, string.find, string.match, string.format, string.byte
min, max, concat = math.min, math.max, table.concat
pack, unpacked = struct.pack, struct.unpack

-- part: key
-- gives: key
local tag = KEYS[1]

-- Keys are built only here and, for Python, in keys.py.
function key(kind, name)
  if name then return tag .. ':' .. kind .. ':' .. name end
  return tag .. ':' .. kind
end

-- part: int
-- gives: int
-- needs: builtins
-- Print a whole number: `..` and tostring cut microseconds to 14 digits.
function int(number) return format('%.0f', number) end

-- part: now
-- gives: now stamp
-- needs: call builtins
now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

stamp = pack('>d', now) -- times in packed rows are big-endian doubles, exact for microseconds

-- part: arguments
-- gives: argument rows cell column
-- Arguments: the time, whether events are recorded, then those that the header of the script names, bound by the loader.
-- Lists of rows are sent flat behind their number; `cell` is one value of one row.
local cursor = 3

function argument()
  cursor = cursor + 1
  return ARGV[cursor - 1]
end

function rows(width)
  local number = tonumber(argument())
  local first = cursor
  cursor = cursor + width * number
  return { first = first, count = number, width = width }
end

function cell(of, row, column) return ARGV[of.first + (row - 1) * of.width + column - 1] end

function column(of, number)
  local cells = {}
  for i = 1, of.count do cells[i] = ARGV[of.first + (i - 1) * of.width + number - 1] end
  return cells
end

-- part: commit_even_if_full
-- gives: commit_even_if_full
-- needs: call key
-- A full server accepts only a delete as the first write of a script, and after it any write. Verbs that must work on a
-- full server (all but those that store something new) begin with a delete.
function commit_even_if_full()
  commit()
  call('DEL', key('slot_probe'))
end
