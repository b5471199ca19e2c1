-- Keep the text of a script where clients in other languages find it.
-- args: name text
commit()
call('HSET', key('scripts'), name, text)
return 1
