-- Record that a worker is alive for this time; a time of zero removes it.
-- args: worker ttl about
-- needs: call builtins key now commit_even_if_full
commit_even_if_full()
if tonumber(ttl) > 0 then
  call('HSET', key('workers'), worker, pack('>d', now + ttl) .. stamp .. about)
  call('ZADD', key('beats'), now + ttl, worker)
else
  call('HDEL', key('workers'), worker)
  call('ZREM', key('beats'), worker)
end
