-- What all scripts stand on: names of keys, numbers, the moment, arguments.
-- gives: key int now stamp sub find match format byte min max concat pack unpacked CHUNK argument rows cell column
-- gives: commit_even_if_full READ_TOGETHER
local tag = KEYS[1]
sub, find, match, format, byte = string.sub, string.find, string.match, string.format, string.byte
min, max, concat = math.min, math.max, table.concat
pack, unpacked = struct.pack, struct.unpack
CHUNK = 1000 -- arguments a command, far below what Lua can unpack
READ_TOGETHER = 32 -- records a command, where those beyond a bound in bytes would be read for nothing

-- Keys are built here and, for Python, in keys.py; nowhere else.
function key(kind, name)
  if name then return tag .. ':' .. kind .. ':' .. name end
  return tag .. ':' .. kind
end

-- Whole numbers as text: `..` and tostring cut microseconds to 14 digits.
function int(number) return format('%.0f', number) end

now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
stamp = pack('>d', now) -- moments inside packed rows are big-endian doubles, exact for microseconds

-- Arguments: now, whether events are wanted, then what the header of the verb names, bound by the loader. Lists of rows
-- travel flat after their count; `cell` is one value of one row.
local cursor = 3
function argument()
  cursor = cursor + 1
  return ARGV[cursor - 1]
end

function rows(width)
  local count = tonumber(argument())
  local first = cursor
  cursor = cursor + width * count
  return { first = first, count = count, width = width }
end

function cell(of, row, column) return ARGV[of.first + (row - 1) * of.width + column - 1] end

function column(of, number)
  local cells = {}
  for i = 1, of.count do cells[i] = ARGV[of.first + (i - 1) * of.width + number - 1] end
  return cells
end

-- On a full server only deletes are let through as the first write, and after one anything: verbs that must go on
-- when there is no room (all but those that bring something new) begin with one.
function commit_even_if_full()
  commit()
  call('DEL', key('door'))
end
