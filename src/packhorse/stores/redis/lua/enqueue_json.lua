-- Enqueue a job for any client of the server: task, arguments and options as texts. Return the id of the new job, or of
-- the existing one. Arguments are stored byte for byte; docs/how-to/other-languages.md describes the options.
-- args: task args options
-- needs: builtins int now arrivals head_in_part conclude_if_room create

-- Sequences of UTF-8 by their first byte; without them the rest of a text must be ASCII.
local TAIL = '[\128-\191]'
local SEQUENCES = {
  '[\194-\223]' .. TAIL, '\224[\160-\191]' .. TAIL, '[\225-\236\238\239]' .. TAIL .. TAIL, '\237[\128-\159]' .. TAIL,
  '\240[\144-\191]' .. TAIL .. TAIL, '[\241-\243]' .. TAIL .. TAIL .. TAIL, '\244[\128-\143]' .. TAIL .. TAIL,
}
local function utf8(text)
  for i = 1, #SEQUENCES do
    if not find(text, '[\128-\255]') then return true end
    text = string.gsub(text, SEQUENCES[i], ' ')
  end
  return not find(text, '[\128-\255]')
end

-- What cjson accepts and JSON forbids: control bytes in strings, and numbers in C notation.
local MALFORMED = {
  '[a-df-zA-DF-Z]', '[^%d][eE]', '[eE][^%d%+%-]', '[eE][%+%-][^%d]', '[^eE]%+', '%-[^%d]', '[^%d]%.', '%.[^%d]',
  '[^%w%.%+%-]%-?0%d',
}
local function strict(text)
  local bare = string.gsub(text, '\\.', '')
  for inside in string.gmatch(bare, '"([^"]*)"') do
    if find(inside, '[%z\1-\31]') then return false end
  end
  bare = string.gsub(bare, '"[^"]*"', '')
  for _, word in ipairs({ 'true', 'false', 'null' }) do bare = string.gsub(bare, word, ' ') end
  for i = 1, #MALFORMED do
    if find(bare, MALFORMED[i]) then return false end
  end
  return true
end

local function object(text)
  if not find(text, '^%s*{') or not utf8(text) or find(text, '%z') or not strict(text) then return nil end
  local ok, value = pcall(cjson.decode, text)
  return ok and value or nil
end

local function named(text, most)
  return type(text) == 'string' and #text > 0 and #text <= (most or 255) and not find(text, '[%z\1-\31\127]') and utf8(text)
end

local function number(least, most)
  return function(value) return type(value) == 'number' and value >= least and value <= most end
end

local function whole(least, most)
  local fits = number(least, most)
  return function(value) return fits(value) and value % 1 == 0 end
end

-- Return whether a table was an object with valid names. An empty list looks like an empty object.
local function with_names(value)
  for name in pairs(value) do
    if not named(name) then return false end
  end
  return true
end

local UNIQUE_OPTIONS = { key = true, within = true, ['until'] = true }
local RESERVED_HEADERS = { packhorse = true, correlation_id = true, traceparent = true, tracestate = true, baggage = true, tenant = true, user = true }
local CHECKS = {
  queue = named, key = named, tenant = named, user = named, correlation_id = named,
  priority = whole(0, 8191), per_key = whole(1, 32767), attempts = whole(1, 1000000),
  delay = number(0, 3155760000), at = number(0, 4102444800),
  headers = function(value) return type(value) == 'table' and with_names(value) end,
  uuid = function(value) return type(value) == 'string' and #value == 36 and match(value, '^%x+%-%x+%-%x+%-%x+%-%x+$') end,
  unique = function(value)
    if type(value) ~= 'table' then return false end
    for name in pairs(value) do
      if not UNIQUE_OPTIONS[name] then return false end
    end
    return named(value.key)
      and (value.within == nil or number(0.000001, 3155760000)(value.within))
      and (value['until'] == nil or value['until'] == 'started' or value['until'] == 'finished')
  end,
}
if #args > 1048576 then return redis.error_reply('PACKHORSE args have more than 1 MiB') end
if #options > 65536 then return redis.error_reply('PACKHORSE options have more than 64 KiB') end
local given = object(options)
if not named(task) then return redis.error_reply('PACKHORSE a task has a name of 1 to 255 bytes of UTF-8 text') end
if not given or not object(args) then return redis.error_reply('PACKHORSE args and options are texts of JSON objects, in UTF-8') end
for name, value in pairs(given) do
  if not CHECKS[name] then return redis.error_reply('PACKHORSE there is no option ' .. name) end
  if not CHECKS[name](value) then return redis.error_reply('PACKHORSE this is nothing for the option ' .. name) end
end
if sub(task, 1, 10) == 'packhorse.' or sub(given.queue or '', 1, 10) == 'packhorse.' then
  return redis.error_reply('PACKHORSE names of queues and tasks that begin with "packhorse." are kept for Packhorse itself: choose another')
end

for name in pairs(given.headers or {}) do
  if RESERVED_HEADERS[name] then
    return redis.error_reply('PACKHORSE a header has a name that is taken: packhorse, correlation_id, traceparent, tracestate, baggage, tenant, user; use the options tenant, user and correlation_id')
  end
end

-- JSON knows -0, which C writes as it is: adding 0 makes it 0.
local function micros(seconds) return int((seconds or 0) * 1000000 + 0) end

-- Hash the time and a counter: a script has no randomness of its own.
local function fresh()
  local digest = redis.sha1hex(int(now) .. ':' .. int(arrival()) .. ':' .. task .. ':' .. args)
  return format('%012x', now / 1000) .. '7' .. sub(digest, 1, 3) .. '8' .. sub(digest, 4, 6) .. sub(digest, 7, 18)
end

local function dashed(hex)
  return concat({ sub(hex, 1, 8), sub(hex, 9, 12), sub(hex, 13, 16), sub(hex, 17, 20), sub(hex, 21) }, '-')
end

local hex = given.uuid and string.lower((string.gsub(given.uuid, '-', ''))) or fresh()
local id = string.gsub(hex, '%x%x', function(pair) return string.char(tonumber(pair, 16)) end)
local fields = given.headers or {}
fields.correlation_id = given.correlation_id or dashed(hex)
fields.tenant, fields.user = given.tenant, given.user
if given.attempts then fields.packhorse = { options = { attempts = given.attempts } } end
local encoded, headers = pcall(cjson.encode, fields)
if not encoded then return redis.error_reply('PACKHORSE the headers hold a number that is too large') end
if #headers > 16384 then return redis.error_reply('PACKHORSE the headers have more than 16 KiB') end

local later = (given.delay or given.at) and micros(given.delay) .. ' ' .. micros(given.at) or ''
local common = concat({ given.queue or 'default', int((given.priority or 10) + 0), task, given.tenant or '', int(#headers) }, '\31')
local head
if given.key or given.unique then
  local unique = given.unique or {}
  local scope = given.unique and (unique.within and 'w' or sub(unique['until'] or 'finished', 1, 1)) or ''
  head = concat({
    (scope == 's' and 's' or 'x') .. (given.key or ''), int(given.per_key or 1), common, '',
    given.unique and task .. ':' .. unique.key or '', scope, micros(unique.within), '0',
  }, '\31')
  if later == '' then later = '0 0' end
else
  head = (later == '' and 'p' or 'd') .. common
end
local letter = 0
for at = 1, #head do letter = (letter * 31 + byte(head, at)) % 94 end
local part = head .. '\30' .. string.char(33 + letter) .. headers .. args .. sub(id, 9)
local parsed = head_in_part(part)
local known = prefetch_jobs({ id }, { parsed })
local holder = create(id, known[1], parsed, part, later)
conclude_if_room()
return dashed((string.gsub(holder, '.', function(char) return format('%02x', byte(char)) end)))
