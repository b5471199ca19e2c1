-- compatible: no
-- A record is written once, at enqueue; a narrow row in exactly one of scheduled, ready, running, waiting, ended says its state.
-- These rows hold the record's rowid. Numbers come from one counter that never goes back (moment.number).

CREATE TABLE packhorse_moment (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    at INTEGER NOT NULL,        -- high-water mark of the clock
    number INTEGER NOT NULL     -- last number given to a record, a row of a state or an end
);
INSERT INTO packhorse_moment VALUES (1, 0, 0);

CREATE TABLE packhorse_jobs (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    priority INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    due INTEGER NOT NULL,
    flags INTEGER NOT NULL,     -- what a place must know: see Flag in places.py
    headers BLOB NOT NULL,
    tenant TEXT,
    lane TEXT,
    lane_limit INTEGER,
    parent BLOB,
    children INTEGER,
    unique_key TEXT,
    payload BLOB NOT NULL       -- last, since a column behind a long one is read through all of its pages
);
CREATE UNIQUE INDEX packhorse_jobs_id ON packhorse_jobs (id);

CREATE TABLE packhorse_ready (
    seq INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    since INTEGER NOT NULL,
    number INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    flags INTEGER NOT NULL
);
CREATE UNIQUE INDEX packhorse_ready_order ON packhorse_ready (queue, priority, since, number);

CREATE TABLE packhorse_scheduled (
    seq INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    since INTEGER NOT NULL,     -- the moment it falls due
    number INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    flags INTEGER NOT NULL
);
CREATE UNIQUE INDEX packhorse_scheduled_order ON packhorse_scheduled (queue, since, number);
CREATE INDEX packhorse_scheduled_laned ON packhorse_scheduled (queue, since) WHERE flags & 3 = 2;  -- of a lane, without a slot

CREATE TABLE packhorse_running (
    seq INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    since INTEGER NOT NULL,     -- with the number: its order when it was claimed
    number INTEGER NOT NULL,
    claimed INTEGER NOT NULL,
    until INTEGER NOT NULL,
    token BLOB NOT NULL,
    worker BLOB NOT NULL,
    attempt INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    flags INTEGER NOT NULL,
    step INTEGER NOT NULL DEFAULT 0,
    cancelling INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE packhorse_waiting (
    seq INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    since INTEGER NOT NULL,
    number INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    flags INTEGER NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL DEFAULT '',
    lane TEXT,                  -- behind this lane
    pending INTEGER,            -- until so many children have ended
    kind TEXT,                  -- until this record is there
    key TEXT,
    after INTEGER
);
CREATE INDEX packhorse_waiting_order ON packhorse_waiting (queue, since, number);
CREATE INDEX packhorse_waiting_lane ON packhorse_waiting (queue, lane, number) WHERE lane IS NOT NULL;
CREATE INDEX packhorse_waiting_on ON packhorse_waiting (kind, key) WHERE kind IS NOT NULL;
CREATE INDEX packhorse_waiting_reason ON packhorse_waiting (reason, since, number) WHERE lane IS NULL AND pending IS NULL;

CREATE TABLE packhorse_retention_groups (  -- ended jobs that are kept by the same rule
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    state TEXT NOT NULL,
    keep_count INTEGER NOT NULL,
    keep_age INTEGER NOT NULL,
    UNIQUE (queue, state, keep_count, keep_age)
);
CREATE TABLE packhorse_ended (
    seq INTEGER PRIMARY KEY,
    retention_group INTEGER NOT NULL,
    number INTEGER NOT NULL,
    finished INTEGER NOT NULL,
    token BLOB,
    attempt INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    reason TEXT,
    result BLOB
);
CREATE INDEX packhorse_ended_retention_group ON packhorse_ended (retention_group, number);

CREATE TABLE packhorse_tries (            -- what past attempts left behind: their token, and their failure if they had one
    seq INTEGER NOT NULL,
    number INTEGER NOT NULL,
    token BLOB,
    attempt INTEGER NOT NULL,
    at INTEGER NOT NULL,
    error BLOB,
    PRIMARY KEY (seq, number)
) WITHOUT ROWID;

CREATE TABLE packhorse_watched_jobs (seq INTEGER PRIMARY KEY, until INTEGER NOT NULL);
CREATE INDEX packhorse_watched_jobs_until ON packhorse_watched_jobs (until);

CREATE TABLE packhorse_progress (seq INTEGER PRIMARY KEY, progress BLOB NOT NULL);

CREATE TABLE packhorse_tombstones (       -- ids of pruned jobs, so that a repeat is recognised
    id BLOB PRIMARY KEY,
    token BLOB,
    state TEXT NOT NULL,
    forget INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX packhorse_tombstones_forget ON packhorse_tombstones (forget);

CREATE TABLE packhorse_unique_keys (
    key TEXT PRIMARY KEY,
    id BLOB NOT NULL,
    until INTEGER               -- end of the window; none: until the job starts or ends
) WITHOUT ROWID;
CREATE INDEX packhorse_unique_keys_until ON packhorse_unique_keys (until) WHERE until IS NOT NULL;

CREATE TABLE packhorse_lanes (
    queue TEXT NOT NULL,
    lane TEXT NOT NULL,
    held INTEGER NOT NULL,
    PRIMARY KEY (queue, lane)
) WITHOUT ROWID;

CREATE TABLE packhorse_families (seq INTEGER PRIMARY KEY, delivered INTEGER NOT NULL);

CREATE TABLE packhorse_queues (name TEXT PRIMARY KEY, paused INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE packhorse_counts (
    queue TEXT NOT NULL,
    state TEXT NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (queue, state)
) WITHOUT ROWID;

CREATE TABLE packhorse_past_counts (      -- what counts show no more: removed jobs as enqueued, and ends that jobs have left
    queue TEXT NOT NULL,
    what TEXT NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (queue, what)
) WITHOUT ROWID;

CREATE TABLE packhorse_claim_requests (
    worker BLOB PRIMARY KEY,
    token BLOB NOT NULL,
    at INTEGER NOT NULL,
    number INTEGER NOT NULL,    -- the worker's own: what comes with a lower one is too late
    fence INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE packhorse_workers (id BLOB PRIMARY KEY, until INTEGER NOT NULL, seen INTEGER NOT NULL, facts BLOB NOT NULL) WITHOUT ROWID;

CREATE TABLE packhorse_records (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    due INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    value BLOB NOT NULL
);
CREATE UNIQUE INDEX packhorse_records_key ON packhorse_records (kind, key);
CREATE INDEX packhorse_records_due ON packhorse_records (kind, due) WHERE due > 0;
CREATE INDEX packhorse_records_expires ON packhorse_records (expires) WHERE expires > 0;

CREATE TABLE packhorse_stream_heads (stream TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE packhorse_events (
    stream TEXT NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    key TEXT,
    data BLOB NOT NULL
);
CREATE UNIQUE INDEX packhorse_events_number ON packhorse_events (stream, number);
CREATE TABLE packhorse_lifecycle (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, data BLOB NOT NULL);

-- Any client of the file can enqueue, within its own transaction: INSERT INTO packhorse_enqueue (task, args, options) VALUES (...).
-- A row does not stay: the trigger makes record, place, count and event of it, as enqueue does.
-- The id may be given (16 bytes), else it is random; one that is taken, like a unique key that is held, makes nothing.
CREATE TABLE packhorse_enqueue (
    id BLOB NOT NULL DEFAULT (CAST(randomblob(6) || x'40' || randomblob(1) || x'80' || randomblob(7) AS BLOB)),
    task TEXT NOT NULL,
    args TEXT NOT NULL DEFAULT '{}',
    options TEXT NOT NULL DEFAULT '{}'
);
CREATE TRIGGER packhorse_enqueued AFTER INSERT ON packhorse_enqueue
BEGIN
    DELETE FROM packhorse_enqueue WHERE rowid = NEW.rowid;
    SELECT RAISE(ABORT, 'packhorse: an id is a blob of 16 bytes; leave it out for a random one')
    WHERE typeof(NEW.id) <> 'blob' OR length(NEW.id) <> 16;
    SELECT RAISE(ABORT, 'packhorse: a task has a name of 1 to 255 bytes without control characters')
    WHERE typeof(NEW.task) <> 'text'
    OR length(CAST(NEW.task AS BLOB)) NOT BETWEEN 1 AND 255
    OR NEW.task GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'
    OR instr(CAST(NEW.task AS BLOB), x'00') > 0;
    SELECT RAISE(ABORT, 'packhorse: args and options are texts of JSON objects, args of at most 1 MiB')
    WHERE typeof(NEW.args) <> 'text'
    OR typeof(NEW.options) <> 'text'
    OR length(CAST(NEW.args AS BLOB)) > 1048576
    -- The functions for JSON read a text up to its first NUL.
    OR instr(CAST(NEW.args AS BLOB), x'00') > 0
    OR instr(CAST(NEW.options AS BLOB), x'00') > 0
    OR CASE WHEN json_valid(NEW.args) THEN json_type(NEW.args) END IS NOT 'object'
    OR CASE WHEN json_valid(NEW.options) THEN json_type(NEW.options) END IS NOT 'object';
    -- The functions for JSON end a text at this character, so it is looked for in the text of the object.
    SELECT RAISE(ABORT, 'packhorse: options hold the character \u0000')
    WHERE instr(replace(NEW.options, '\\', ''), '\u0000') > 0;
    SELECT RAISE(ABORT, 'packhorse: an option is unknown, has the wrong type or is out of range: queue, key, tenant, user, correlation_id (names), priority 0-8191, per_key 1-32767, attempts 1-1000000, delay and at (seconds), headers (object), unique {"key", "within" in seconds or "until": "started" or "finished"}')
    FROM json_each(NEW.options) AS given
    WHERE NOT coalesce(
        CASE
            WHEN given.key IN ('queue', 'key', 'tenant', 'user', 'correlation_id') THEN
                given.type = 'text' AND length(CAST(given.value AS BLOB)) BETWEEN 1 AND 255
                AND given.value NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'
            WHEN given.key = 'priority' THEN given.type = 'integer' AND given.value BETWEEN 0 AND 8191
            WHEN given.key = 'per_key' THEN given.type = 'integer' AND given.value BETWEEN 1 AND 32767
            WHEN given.key = 'attempts' THEN given.type = 'integer' AND given.value BETWEEN 1 AND 1000000
            WHEN given.key = 'delay' THEN given.type IN ('integer', 'real') AND given.value BETWEEN 0 AND 3155760000
            WHEN given.key = 'at' THEN given.type IN ('integer', 'real') AND given.value BETWEEN 0 AND 4102444800
            WHEN given.key = 'headers' THEN given.type = 'object' AND length(CAST(given.value AS BLOB)) <= 15000
            WHEN given.key = 'unique' THEN
                given.type = 'object'
                AND json_type(given.value, '$.key') = 'text'
                AND length(CAST(json_extract(given.value, '$.key') AS BLOB)) BETWEEN 1 AND 255
                AND json_extract(given.value, '$.key') NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'
                AND coalesce(json_type(given.value, '$.within'), 'real') IN ('integer', 'real')
                AND coalesce(json_extract(given.value, '$.within'), 1) BETWEEN 0.000001 AND 3155760000
                AND coalesce(json_type(given.value, '$.until'), 'text') = 'text'
                AND coalesce(json_extract(given.value, '$.until'), 'started') IN ('started', 'finished')
                AND NOT EXISTS (SELECT 1 FROM json_each(given.value) AS word WHERE word.key NOT IN ('key', 'within', 'until'))
        END,
        false
    );
    SELECT RAISE(ABORT, 'packhorse: names of queues and tasks that begin with "packhorse." are kept for Packhorse itself: choose another')
    WHERE substr(NEW.task, 1, 10) = 'packhorse.'
    OR substr(coalesce(json_extract(NEW.options, '$.queue'), ''), 1, 10) = 'packhorse.';
    SELECT RAISE(ABORT, 'packhorse: a header has a name that is taken: packhorse, correlation_id, traceparent, tracestate, baggage, tenant, user; use the options tenant, user and correlation_id')
    FROM json_each(NEW.options, '$.headers') AS header
    WHERE header.key IN ('packhorse', 'correlation_id', 'traceparent', 'tracestate', 'baggage', 'tenant', 'user');
    SELECT RAISE(ABORT, 'packhorse: a header has a name of 1 to 255 bytes without control characters')
    FROM json_each(NEW.options, '$.headers') AS header
    WHERE length(CAST(header.key AS BLOB)) NOT BETWEEN 1 AND 255
    OR header.key GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*';
    -- SQLite reads bytes that are no UTF-8 as some character, U+FFFD or another: what it reads has other bytes than what was
    -- given. It reads U+FFFE and U+FFFF as U+FFFD too. Finding a character takes as long as there are others before it, so
    -- texts that are not ASCII alone are cut into pieces, and those into smaller ones; LIMIT has each cut once.
    SELECT RAISE(ABORT, 'packhorse: task, args and options are UTF-8 text, without halves of surrogate pairs')
    FROM (
        SELECT substr(text, 1 + 256 * piece.key, 256) AS text
        FROM (
            SELECT substr(text, 1 + 16384 * piece.key, 16384) AS text
            FROM (
                SELECT NEW.task AS text
                UNION ALL
                SELECT NEW.args
                UNION ALL
                SELECT NEW.options
                UNION ALL
                SELECT coalesce(part.key, '') || coalesce(part.atom, '')
                FROM json_tree(CASE WHEN NEW.args GLOB '*\u[dD][89a-fA-F]*' THEN NEW.args ELSE '{}' END) AS part
                UNION ALL
                SELECT coalesce(part.key, '') || coalesce(part.atom, '')
                FROM json_tree(CASE WHEN NEW.options GLOB '*\u[dD][89a-fA-F]*' THEN NEW.options ELSE '{}' END) AS part
            ), json_each('[0' || replace(hex(zeroblob(length(text) / 16384)), '00', ',0') || ']') AS piece
            WHERE text GLOB '*[^' || char(1) || '-' || char(127) || ']*'
            LIMIT -1
        ), json_each('[0' || replace(hex(zeroblob(length(text) / 256)), '00', ',0') || ']') AS piece
        WHERE text GLOB '*[^' || char(1) || '-' || char(127) || ']*'
        LIMIT -1
    ), json_each('[0' || replace(hex(zeroblob(length(text) - 1)), '00', ',0') || ']') AS place
    WHERE text GLOB '*[^' || char(1) || '-' || char(127) || ']*'
    AND substr(text, 1 + place.key, 1) NOT IN (char(unicode(substr(text, 1 + place.key, 1))), char(65534), char(65535));

    UPDATE packhorse_moment SET at = max(
        at, CAST(strftime('%s', 'now') AS INTEGER) * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000
    );
    SELECT RAISE(IGNORE)
    WHERE EXISTS (SELECT 1 FROM packhorse_jobs WHERE id = NEW.id)
    OR EXISTS (SELECT 1 FROM packhorse_tombstones WHERE id = NEW.id)
    OR EXISTS (
        SELECT 1 FROM packhorse_unique_keys AS uniques CROSS JOIN packhorse_moment AS moment
        WHERE uniques.key = NEW.task || ':' || (json_extract(NEW.options, '$.unique.key'))
        AND (uniques.until IS NULL OR uniques.until > moment.at)
    );

    UPDATE packhorse_moment SET number = number + 2;
    INSERT INTO packhorse_jobs (
        seq, id, queue, task, priority, enqueued_at, due, flags, payload, headers, tenant, lane, lane_limit, parent, children, unique_key
    )
    SELECT
        number - 1, NEW.id, coalesce(json_extract(NEW.options, '$.queue'), 'default'), NEW.task, coalesce(json_extract(NEW.options, '$.priority'), 10),
        at,
        max(
            CAST(coalesce(json_extract(NEW.options, '$.at'), 0) * 1000000 AS INTEGER),
            at + CAST(coalesce(json_extract(NEW.options, '$.delay'), 0) * 1000000 AS INTEGER)
        ),
        (json_extract(NEW.options, '$.key') IS NOT NULL) * 2
        + (json_extract(NEW.options, '$.unique') IS NOT NULL AND json_extract(NEW.options, '$.unique.within') IS NULL)
        * CASE json_extract(NEW.options, '$.unique.until') WHEN 'started' THEN 16 ELSE 8 END,
        CAST(NEW.args AS BLOB),
        CAST(
            json_patch(
                coalesce(json_extract(NEW.options, '$.headers'), '{}'),
                json_object(
                    'correlation_id', coalesce(
                        json_extract(NEW.options, '$.correlation_id'),
                        lower(
                            substr(hex(NEW.id), 1, 8) || '-' || substr(hex(NEW.id), 9, 4) || '-' || substr(hex(NEW.id), 13, 4)
                            || '-' || substr(hex(NEW.id), 17, 4) || '-' || substr(hex(NEW.id), 21)
                        )
                    ),
                    'tenant', json_extract(NEW.options, '$.tenant'),
                    'user', json_extract(NEW.options, '$.user'),
                    'packhorse', json(
                        CASE WHEN json_extract(NEW.options, '$.attempts') IS NOT NULL
                            THEN json_object('options', json_object('attempts', json_extract(NEW.options, '$.attempts')))
                        END
                    )
                )
            ) AS BLOB
        ),
        json_extract(NEW.options, '$.tenant'), json_extract(NEW.options, '$.key'), coalesce(json_extract(NEW.options, '$.per_key'), 1), NULL, 0,
        NEW.task || ':' || (json_extract(NEW.options, '$.unique.key'))
    FROM packhorse_moment AS moment;
    INSERT OR REPLACE INTO packhorse_unique_keys (key, id, until)
    SELECT jobs.unique_key, jobs.id, moment.at + CAST(json_extract(NEW.options, '$.unique.within') * 1000000 AS INTEGER)
    FROM packhorse_moment AS moment CROSS JOIN packhorse_jobs AS jobs ON jobs.seq = moment.number - 1
    WHERE jobs.unique_key IS NOT NULL;

    INSERT INTO packhorse_scheduled (seq, queue, priority, since, number, attempt, lost, flags)
    SELECT jobs.seq, jobs.queue, jobs.priority, jobs.due, moment.number, 0, 0, jobs.flags
    FROM packhorse_moment AS moment CROSS JOIN packhorse_jobs AS jobs ON jobs.seq = moment.number - 1
    WHERE jobs.due > moment.at
    OR (
        jobs.lane IS NOT NULL
        AND EXISTS (
            SELECT 1 FROM packhorse_scheduled AS before
            WHERE before.queue = jobs.queue AND before.since <= moment.at AND before.flags & 3 = 2
        )
    );
    INSERT INTO packhorse_ready (seq, queue, priority, since, number, attempt, lost, flags)
    SELECT jobs.seq, jobs.queue, jobs.priority, jobs.due, moment.number, 0, 0, jobs.flags + (jobs.lane IS NOT NULL)
    FROM packhorse_moment AS moment CROSS JOIN packhorse_jobs AS jobs ON jobs.seq = moment.number - 1
    WHERE NOT EXISTS (SELECT 1 FROM packhorse_scheduled AS due WHERE due.seq = jobs.seq)
    AND (
        jobs.lane IS NULL
        OR (
            coalesce((SELECT held FROM packhorse_lanes AS lanes WHERE lanes.queue = jobs.queue AND lanes.lane = jobs.lane), 0) < jobs.lane_limit
            AND NOT EXISTS (SELECT 1 FROM packhorse_waiting AS waits WHERE waits.queue = jobs.queue AND waits.lane = jobs.lane)
        )
    );
    INSERT INTO packhorse_lanes (queue, lane, held)
    SELECT jobs.queue, jobs.lane, 1
    FROM packhorse_moment AS moment CROSS JOIN packhorse_jobs AS jobs ON jobs.seq = moment.number - 1 CROSS JOIN packhorse_ready AS ready ON ready.seq = jobs.seq
    WHERE jobs.lane IS NOT NULL
    ON CONFLICT DO UPDATE SET held = held + 1;
    INSERT INTO packhorse_waiting (seq, queue, priority, since, number, attempt, lost, flags, reason, lane)
    SELECT jobs.seq, jobs.queue, jobs.priority, moment.at, moment.number, 0, 0, jobs.flags, 'lane', jobs.lane
    FROM packhorse_moment AS moment CROSS JOIN packhorse_jobs AS jobs ON jobs.seq = moment.number - 1
    WHERE NOT EXISTS (SELECT 1 FROM packhorse_scheduled AS due WHERE due.seq = jobs.seq)
    AND NOT EXISTS (SELECT 1 FROM packhorse_ready AS ready WHERE ready.seq = jobs.seq);

    INSERT INTO packhorse_counts (queue, state, n)
    SELECT
        jobs.queue,
        CASE
            WHEN EXISTS (SELECT 1 FROM packhorse_ready AS ready WHERE ready.seq = jobs.seq) THEN 'ready'
            WHEN EXISTS (SELECT 1 FROM packhorse_scheduled AS due WHERE due.seq = jobs.seq) THEN 'scheduled'
            ELSE 'waiting'
        END,
        1
    FROM packhorse_moment AS moment CROSS JOIN packhorse_jobs AS jobs ON jobs.seq = moment.number - 1
    WHERE true
    ON CONFLICT DO UPDATE SET n = n + 1;
    INSERT INTO packhorse_lifecycle (at, data) SELECT at, CAST(x'01' || 'q' || x'0001' || NEW.id AS BLOB) FROM packhorse_moment AS moment;
END;
