-- Offsets and letters of packed values. The loader writes the value in place of the name, so names cost nothing at run
-- time. Offsets count from 1; `_AT` is the first byte of a field and `_END` its last. rows.lua describes the formats.

-- Record: form, enqueued(8), and in form 2 due(8) arrival(4), then the head
FORM_READY = 49 -- '1'
FORM_LATER = 50 -- '2'
ENQUEUED_AT = 2
ENQUEUED_END = 9
DUE_AT = 10
DUE_END = 17
ARRIVAL_AT = 18
ARRIVAL_END = 21
READY_HEAD_AT = 10
LATER_HEAD_AT = 22
RECORD_REST = 9 -- bytes of a record that are neither head, headers nor payload: check letter and last bytes of the id

-- Head
HEAD_STOP = '\30' -- one check letter follows
UNREADABLE_QUEUE = 63 -- '?', the queue of an unreadable record
FLAG_PLAIN = 112 -- 'p'
FLAG_DUE_LATER = 100 -- 'd'
FLAG_SPECIAL = 120 -- 'x'
FLAG_UNIQUE_UNTIL_STARTED = 115 -- 's'
SEPARATOR_BYTE = 31

-- Live row: token, worker, place, mark, counters, step, head, tail, check letter
TOKEN_END = 16
WORKER_AT = 17
WORKER_END = 32
PLACE_AT = 33
MARK_AT = 34
AFTER_MARK_AT = 35
COUNTERS_AT = 35
COUNTERS_END = 40
STEP_AT = 41
STEP_END = 44
HEAD_AT = 45
QUEUE_AT = 46 -- of a plain head
TAIL_MOMENT_AT = -9 -- the last eight bytes before the check letter
TAIL_END = -2
RUNNING = 'l'
READY = 'r'
SCHEDULED = 's'
WAITING = 'w'
RUNNING_BYTE = 108
READY_BYTE = 114
SCHEDULED_BYTE = 115
WAITING_BYTE = 119
MARK_NONE = 48 -- '0': no lane slot, not to be cancelled

-- Counters: attempt(4) lost(2)
LOST_AT = 5
LOST_END = 6
NO_ATTEMPT = '\0\0\0\0\0\0'
FIRST_ATTEMPT = '\0\0\0\1\0\0'
NO_TOKEN = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
NO_STEP = '\0\0\0\0'

-- Row of an ended job: verdict, token, finished, counters, group, reason and result, position
DONE = 'd'
DEAD = 'k'
CANCELLED = 'c'
ENDED_TOKEN_AT = 2
ENDED_TOKEN_END = 17
FINISHED_AT = 18
FINISHED_END = 25
ENDED_COUNTERS_AT = 26
ENDED_COUNTERS_END = 31
GROUP_AT = 32
GROUP_END = 35
POSITION_AT = -4

-- Settlement: token, letter of the outcome, number of its keep(2), what belongs to the outcome, check letter
OUTCOME_AT = 17
KEEP_END = 19
OUTCOME_REST_AT = 20
OUTCOME_REST_END = -2
OUTCOME_DONE = 100 -- 'd'
OUTCOME_HELD = 104 -- 'h'

-- Try: token, attempt(4), at(8), length(4), failure; offsets of the length count from 0
TRY_BYTES = 32 -- without the failure
TRY_LENGTH_FROM = 28
TRY_LENGTH_TO = 31

-- Tombstone: token, verdict, until. Holder of a unique key: id, scope, expiry. Last claim: token, fence, number.
TOMBSTONE_UNTIL_AT = 18
TOMBSTONE_UNTIL_END = 25
ID_END = 16
SCOPE_AT = 17
EXPIRY_AT = 18
EXPIRY_END = 25
SCOPE_WINDOW = 'w' -- the scope of a key that is unique for a time
FENCE_AT = 17
FENCE_END = 24
CLAIM_BYTES = 32

-- The kind of the records by which children leave their outcomes to a parent
DELIVERED = 'packhorse.delivered'

-- Bounds
CHUNK = 1000 -- arguments of one command, far below what Lua can unpack
READ_TOGETHER = 32 -- records read with one command, since those beyond a bound in bytes are read for nothing
