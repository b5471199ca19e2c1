-- Enqueue a job for any client of the server: task, arguments and options as texts. Answers the id of the job that
-- stands for it. Arguments are kept byte for byte; options are those of docs/how-to/other-languages.md.
-- args: task args options

-- Sequences of UTF-8 by their first byte; what is left of a text without them must be ASCII.
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

-- What cjson lets through and JSON does not have: control bytes in strings, and numbers as C writes them.
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

-- Whether a table was an object with good names. An empty list cannot be told from an empty object.
local function with_names(value)
  for name in pairs(value) do
    if not named(name) then return false end
  end
  return true
end

local UNIQUE = { key = true, within = true, ['until'] = true }
local TAKEN = { packhorse = true, correlation_id = true, traceparent = true, tracestate = true, tenant = true, user = true }
local CHECKS = {
  queue = named, key = named, tenant = named, user = named, correlation = named,
  priority = whole(0, 8191), per_key = whole(1, 32767), attempts = whole(1, 1000000),
  delay = number(0, 3155760000), at = number(0, 4102444800),
  headers = function(value) return type(value) == 'table' and with_names(value) end,
  uuid = function(value) return type(value) == 'string' and #value == 36 and match(value, '^%x+%-%x+%-%x+%-%x+%-%x+$') end,
  unique = function(value)
    if type(value) ~= 'table' then return false end
    for name in pairs(value) do
      if not UNIQUE[name] then return false end
    end
    return named(value.key)
      and (value.within == nil or number(0.000001, 3155760000)(value.within))
      and (value['until'] == nil or value['until'] == 'started' or value['until'] == 'finished')
  end,
}
if #args > 1048576 then return redis.error_reply('PACKHORSE args have more than 1 MiB') end
if #options > 65536 then return redis.error_reply('PACKHORSE options have more than 64 KiB') end
local said = object(options)
if not named(task) then return redis.error_reply('PACKHORSE a task has a name of 1 to 255 bytes of UTF-8 text') end
if not said or not object(args) then return redis.error_reply('PACKHORSE args and options are texts of JSON objects, in UTF-8') end
for name, value in pairs(said) do
  if not CHECKS[name] then return redis.error_reply('PACKHORSE there is no option ' .. name) end
  if not CHECKS[name](value) then return redis.error_reply('PACKHORSE this is nothing for the option ' .. name) end
end

for name in pairs(said.headers or {}) do
  if TAKEN[name] then
    return redis.error_reply('PACKHORSE a header has a name that is taken: packhorse, correlation_id, traceparent, tracestate, tenant, user; use the options tenant, user and correlation')
  end
end

local function micros(seconds) return int((seconds or 0) * 1000000) end

-- Time and a number that rises, hashed: a script has no randomness of its own.
local function fresh()
  local hash = redis.sha1hex(int(now) .. ':' .. int(arrival()) .. ':' .. task .. ':' .. args)
  return format('%012x', now / 1000) .. '7' .. sub(hash, 1, 3) .. '8' .. sub(hash, 4, 6) .. sub(hash, 7, 18)
end

local function dashed(hex)
  return concat({ sub(hex, 1, 8), sub(hex, 9, 12), sub(hex, 13, 16), sub(hex, 17, 20), sub(hex, 21) }, '-')
end

local hex = said.uuid and string.lower((string.gsub(said.uuid, '-', ''))) or fresh()
local id = string.gsub(hex, '%x%x', function(pair) return string.char(tonumber(pair, 16)) end)
local fields = said.headers or {}
fields.correlation_id = said.correlation or dashed(hex)
fields.tenant, fields.user = said.tenant, said.user
if said.attempts then fields.packhorse = { options = { attempts = said.attempts } } end
local headers = cjson.encode(fields)
if #headers > 16384 then return redis.error_reply('PACKHORSE the headers have more than 16 KiB') end

local later = (said.delay or said.at) and micros(said.delay) .. ' ' .. micros(said.at) or ''
local common = concat({ said.queue or 'default', int(said.priority or 10), task, said.tenant or '', int(#headers) }, '\31')
local head
if said.key or said.unique then
  local unique = said.unique or {}
  local scope = said.unique and (unique.within and 'w' or sub(unique['until'] or 'finished', 1, 1)) or ''
  head = concat({
    (scope == 's' and 's' or 'x') .. (said.key or ''), int(said.per_key or 1), common, '',
    said.unique and task .. ':' .. unique.key or '', scope, micros(unique.within), '0',
  }, '\31')
  if later == '' then later = '0 0' end
else
  head = (later == '' and 'p' or 'd') .. common
end
local letter = 0
for at = 1, #head do letter = (letter * 31 + byte(head, at)) % 94 end
local part = head .. '\30' .. string.char(33 + letter) .. headers .. args .. sub(id, 9)
local parsed = head_in_part(part)
local known = expect_jobs({ id }, { parsed })
local holder = create(id, known[1], parsed, part, later)
conclude_if_room()
return dashed((string.gsub(holder, '.', function(char) return format('%02x', byte(char)) end)))
