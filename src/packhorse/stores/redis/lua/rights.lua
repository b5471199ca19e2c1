-- Try every command of the scripts on an unused key; return the commands that this user may not run. A script that is
-- denied a command half way would leave half of its writes.
-- needs: builtins key
local probe, denied = key('probe'), {}
for _, form in ipairs({
  { 'HSET', 'a', '1' }, { 'HGET', 'a' }, { 'HGETALL' }, { 'HRANDFIELD' }, { 'HMGET', 'a' }, { 'HLEN' }, { 'HVALS' }, { 'HSCAN', '0' }, { 'HSTRLEN', 'a' },
  { 'HINCRBY', 'a', '1' }, { 'HDEL', 'b' }, { 'LINDEX', '0' }, { 'LLEN' }, { 'LPOP' }, { 'LPOS', 'a' }, { 'LPUSH', 'a' },
  { 'LRANGE', '0', '0' }, { 'LTRIM', '0', '0' }, { 'RPUSH', 'a' }, { 'SADD', 'a' }, { 'SISMEMBER', 'a' }, { 'SMEMBERS' },
  { 'SREM', 'a' }, { 'XADD', '*', 'a', '1' }, { 'XRANGE', '-', '+' }, { 'XREVRANGE', '+', '-' }, { 'XTRIM', 'MAXLEN', '0' }, { 'ZADD', '1', 'a' }, { 'ZCARD' },
  { 'ZRANGE', '0', '0' }, { 'ZRANGEBYLEX', '-', '+' }, { 'ZRANGEBYSCORE', '0', '0' }, { 'ZRANK', 'a' }, { 'ZREM', 'a' },
  { 'ZSCORE', 'a' }, { 'PUBLISH', 'a' }, { 'DEL' },
}) do
  local answer = redis.pcall(form[1], probe, unpack(form, 2))
  local err = type(answer) == 'table' and answer.err
  if err and (find(err, 'ACL failure', 1, true) or find(err, 'user executing', 1, true) or find(err, 'NOPERM', 1, true)) then
    denied[#denied + 1] = form[1]
  end
end
return denied
