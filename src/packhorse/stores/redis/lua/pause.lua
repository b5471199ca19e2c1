-- Pause queues: they take jobs and give none.
-- args: queues:1
-- needs: call key arguments commit_even_if_full
commit_even_if_full()
for i = 1, queues.count do call('SADD', key('paused'), cell(queues, i, 1)) end
return 1
