-- Say that a worker lives, for so long; no time at all says goodbye.
-- args: worker ttl about
commit_even_if_full()
if tonumber(ttl) > 0 then
  call('HSET', key('workers'), worker, pack('>d', now + ttl) .. stamp .. about)
  call('ZADD', key('beats'), now + ttl, worker)
else
  call('HDEL', key('workers'), worker)
  call('ZREM', key('beats'), worker)
end
