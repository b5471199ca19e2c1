-- Resume queues: they give jobs again.
-- args: queues:1
-- needs: call key arguments commit_even_if_full woken close
for i = 1, queues.count do woken[cell(queues, i, 1)] = true end
commit_even_if_full()
for i = 1, queues.count do call('SREM', key('paused'), cell(queues, i, 1)) end
close()
return 1
