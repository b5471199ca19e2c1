-- Store the text of a script for clients in other languages.
-- args: name text
-- needs: call key
commit()
call('HSET', key('scripts'), name, text)
return 1
