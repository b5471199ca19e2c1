-- A record is written once, at enqueue; a narrow row in exactly one of ready, due, leases, waits, ends says where it stands.
-- Places hold the record's rowid. Numbers come from one counter that never goes back (moment.number).

CREATE TABLE packhorse_moment (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    at INTEGER NOT NULL,        -- high-water mark of the clock
    number INTEGER NOT NULL     -- last number given to a record, a turn in a line or an end
);
INSERT INTO packhorse_moment VALUES (1, 0, 0);

CREATE TABLE packhorse_jobs (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    priority INTEGER NOT NULL,
    born INTEGER NOT NULL,
    due INTEGER NOT NULL,
    flags INTEGER NOT NULL,     -- what a place must know: see model of flags in place.py
    payload BLOB NOT NULL,
    headers BLOB NOT NULL,
    tenant TEXT,
    lane TEXT,
    lane_limit INTEGER,
    parent BLOB,
    children INTEGER,
    unique_key TEXT
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

CREATE TABLE packhorse_due (
    seq INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    since INTEGER NOT NULL,     -- the moment it falls due
    number INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    flags INTEGER NOT NULL
);
CREATE UNIQUE INDEX packhorse_due_order ON packhorse_due (queue, since, number);
CREATE INDEX packhorse_due_laned ON packhorse_due (queue, since) WHERE flags & 3 = 2;  -- of a lane, without a slot

CREATE TABLE packhorse_leases (
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

CREATE TABLE packhorse_waits (
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
CREATE INDEX packhorse_waits_order ON packhorse_waits (queue, since, number);
CREATE INDEX packhorse_waits_lane ON packhorse_waits (queue, lane, number) WHERE lane IS NOT NULL;
CREATE INDEX packhorse_waits_on ON packhorse_waits (kind, key) WHERE kind IS NOT NULL;
CREATE INDEX packhorse_waits_reason ON packhorse_waits (reason, since, number) WHERE lane IS NULL AND pending IS NULL;

CREATE TABLE packhorse_shelves (          -- ended jobs that are kept by the same rule
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    state TEXT NOT NULL,
    keep_count INTEGER NOT NULL,
    keep_age INTEGER NOT NULL,
    UNIQUE (queue, state, keep_count, keep_age)
);
CREATE TABLE packhorse_ends (
    seq INTEGER PRIMARY KEY,
    shelf INTEGER NOT NULL,
    number INTEGER NOT NULL,
    finished INTEGER NOT NULL,
    token BLOB,
    attempt INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    reason TEXT,
    result BLOB
);
CREATE INDEX packhorse_ends_shelf ON packhorse_ends (shelf, number);

CREATE TABLE packhorse_tries (            -- what past attempts left behind: their token, and their failure if they had one
    seq INTEGER NOT NULL,
    number INTEGER NOT NULL,
    token BLOB,
    attempt INTEGER NOT NULL,
    at INTEGER NOT NULL,
    error BLOB,
    PRIMARY KEY (seq, number)
) WITHOUT ROWID;

CREATE TABLE packhorse_watched (seq INTEGER PRIMARY KEY, until INTEGER NOT NULL);
CREATE INDEX packhorse_watched_until ON packhorse_watched (until);

CREATE TABLE packhorse_notes (seq INTEGER PRIMARY KEY, progress BLOB NOT NULL);

CREATE TABLE packhorse_tombs (            -- ids of pruned jobs, so that a repeat is known as one
    id BLOB PRIMARY KEY,
    token BLOB,
    state TEXT NOT NULL,
    forget INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX packhorse_tombs_forget ON packhorse_tombs (forget);

CREATE TABLE packhorse_uniques (
    key TEXT PRIMARY KEY,
    id BLOB NOT NULL,
    until INTEGER               -- end of the window; none: until the job starts or ends
) WITHOUT ROWID;
CREATE INDEX packhorse_uniques_until ON packhorse_uniques (until) WHERE until IS NOT NULL;

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

CREATE TABLE packhorse_asks (
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

CREATE TABLE packhorse_heads (stream TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;
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
    WHERE length(CAST(NEW.task AS BLOB)) NOT BETWEEN 1 AND 255
    OR NEW.task GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'
    OR instr(CAST(NEW.task AS BLOB), x'00') > 0;
    SELECT RAISE(ABORT, 'packhorse: args and options are texts of JSON objects, args of at most 1 MiB')
    WHERE length(CAST(NEW.args AS BLOB)) > 1048576
    OR CASE WHEN json_valid(NEW.args) THEN json_type(NEW.args) END IS NOT 'object'
    OR CASE WHEN json_valid(NEW.options) THEN json_type(NEW.options) END IS NOT 'object';
    -- The functions for JSON end a text at this character, so it is looked for in the text of the object.
    SELECT RAISE(ABORT, 'packhorse: options hold the character \u0000')
    WHERE instr(replace(NEW.options, '\\', ''), '\u0000') > 0;
    SELECT RAISE(ABORT, 'packhorse: an option is unknown, has the wrong type or is out of range: queue, key, tenant, user, correlation (names), priority 0-8191, per_key 1-32767, attempts 1-1000000, delay and at (seconds), headers (object), unique {"key", "within" in seconds or "until": "started" or "finished"}')
    FROM json_each(NEW.options) AS said
    WHERE NOT coalesce(
        CASE
            WHEN said.key IN ('queue', 'key', 'tenant', 'user', 'correlation') THEN
                said.type = 'text' AND length(CAST(said.value AS BLOB)) BETWEEN 1 AND 255
                AND said.value NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'
            WHEN said.key = 'priority' THEN said.type = 'integer' AND said.value BETWEEN 0 AND 8191
            WHEN said.key = 'per_key' THEN said.type = 'integer' AND said.value BETWEEN 1 AND 32767
            WHEN said.key = 'attempts' THEN said.type = 'integer' AND said.value BETWEEN 1 AND 1000000
            WHEN said.key = 'delay' THEN said.type IN ('integer', 'real') AND said.value BETWEEN 0 AND 3155760000
            WHEN said.key = 'at' THEN said.type IN ('integer', 'real') AND said.value BETWEEN 0 AND 4102444800
            WHEN said.key = 'headers' THEN said.type = 'object' AND length(CAST(said.value AS BLOB)) <= 15000
            WHEN said.key = 'unique' THEN
                said.type = 'object'
                AND json_type(said.value, '$.key') = 'text'
                AND length(CAST(json_extract(said.value, '$.key') AS BLOB)) BETWEEN 1 AND 255
                AND json_extract(said.value, '$.key') NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'
                AND coalesce(json_type(said.value, '$.within'), 'real') IN ('integer', 'real')
                AND coalesce(json_extract(said.value, '$.within'), 1) BETWEEN 0.000001 AND 3155760000
                AND coalesce(json_type(said.value, '$.until'), 'text') = 'text'
                AND coalesce(json_extract(said.value, '$.until'), 'started') IN ('started', 'finished')
                AND NOT EXISTS (SELECT 1 FROM json_each(said.value) AS word WHERE word.key NOT IN ('key', 'within', 'until'))
        END,
        false
    );
    SELECT RAISE(ABORT, 'packhorse: a header has a name that is taken: packhorse, correlation_id, traceparent, tracestate, tenant, user; use the options tenant, user and correlation')
    FROM json_each(NEW.options, '$.headers') AS header
    WHERE header.key IN ('packhorse', 'correlation_id', 'traceparent', 'tracestate', 'tenant', 'user');
    SELECT RAISE(ABORT, 'packhorse: a header has a name of 1 to 255 bytes without control characters')
    FROM json_each(NEW.options, '$.headers') AS header
    WHERE length(CAST(header.key AS BLOB)) NOT BETWEEN 1 AND 255
    OR header.key GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*';
    -- GLOB reads halves of characters, and most bytes that are no UTF-8, as U+FFFD, and so U+FFFE and U+FFFF: the real ones are left out.
    SELECT RAISE(ABORT, 'packhorse: task, args and options are UTF-8 text, without halves of surrogate pairs')
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
    )
    WHERE replace(replace(replace(text, char(65533), ''), char(65534), ''), char(65535), '') GLOB '*' || char(65533) || '*';

    UPDATE packhorse_moment SET at = max(
        at, CAST(strftime('%s', 'now') AS INTEGER) * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000
    );
    SELECT RAISE(IGNORE)
    WHERE EXISTS (SELECT 1 FROM packhorse_jobs WHERE id = NEW.id)
    OR EXISTS (SELECT 1 FROM packhorse_tombs WHERE id = NEW.id)
    OR EXISTS (
        SELECT 1 FROM packhorse_uniques AS uniques CROSS JOIN packhorse_moment AS moment
        WHERE uniques.key = NEW.task || ':' || (json_extract(NEW.options, '$.unique.key'))
        AND (uniques.until IS NULL OR uniques.until > moment.at)
    );

    UPDATE packhorse_moment SET number = number + 2;
    INSERT INTO packhorse_jobs (
        seq, id, queue, task, priority, born, due, flags, payload, headers, tenant, lane, lane_limit, parent, children, unique_key
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
                        json_extract(NEW.options, '$.correlation'),
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
    INSERT OR REPLACE INTO packhorse_uniques (key, id, until)
    SELECT jobs.unique_key, jobs.id, moment.at + CAST(json_extract(NEW.options, '$.unique.within') * 1000000 AS INTEGER)
    FROM packhorse_moment AS moment CROSS JOIN packhorse_jobs AS jobs ON jobs.seq = moment.number - 1
    WHERE jobs.unique_key IS NOT NULL;

    INSERT INTO packhorse_due (seq, queue, priority, since, number, attempt, lost, flags)
    SELECT jobs.seq, jobs.queue, jobs.priority, jobs.due, moment.number, 0, 0, jobs.flags
    FROM packhorse_moment AS moment CROSS JOIN packhorse_jobs AS jobs ON jobs.seq = moment.number - 1
    WHERE jobs.due > moment.at
    OR (
        jobs.lane IS NOT NULL
        AND EXISTS (
            SELECT 1 FROM packhorse_due AS before
            WHERE before.queue = jobs.queue AND before.since <= moment.at AND before.flags & 3 = 2
        )
    );
    INSERT INTO packhorse_ready (seq, queue, priority, since, number, attempt, lost, flags)
    SELECT jobs.seq, jobs.queue, jobs.priority, jobs.due, moment.number, 0, 0, jobs.flags + (jobs.lane IS NOT NULL)
    FROM packhorse_moment AS moment CROSS JOIN packhorse_jobs AS jobs ON jobs.seq = moment.number - 1
    WHERE NOT EXISTS (SELECT 1 FROM packhorse_due AS due WHERE due.seq = jobs.seq)
    AND (
        jobs.lane IS NULL
        OR (
            coalesce((SELECT held FROM packhorse_lanes AS lanes WHERE lanes.queue = jobs.queue AND lanes.lane = jobs.lane), 0) < jobs.lane_limit
            AND NOT EXISTS (SELECT 1 FROM packhorse_waits AS waits WHERE waits.queue = jobs.queue AND waits.lane = jobs.lane)
        )
    );
    INSERT INTO packhorse_lanes (queue, lane, held)
    SELECT jobs.queue, jobs.lane, 1
    FROM packhorse_moment AS moment CROSS JOIN packhorse_jobs AS jobs ON jobs.seq = moment.number - 1 CROSS JOIN packhorse_ready AS ready ON ready.seq = jobs.seq
    WHERE jobs.lane IS NOT NULL
    ON CONFLICT DO UPDATE SET held = held + 1;
    INSERT INTO packhorse_waits (seq, queue, priority, since, number, attempt, lost, flags, reason, lane)
    SELECT jobs.seq, jobs.queue, jobs.priority, moment.at, moment.number, 0, 0, jobs.flags, 'lane', jobs.lane
    FROM packhorse_moment AS moment CROSS JOIN packhorse_jobs AS jobs ON jobs.seq = moment.number - 1
    WHERE NOT EXISTS (SELECT 1 FROM packhorse_due AS due WHERE due.seq = jobs.seq)
    AND NOT EXISTS (SELECT 1 FROM packhorse_ready AS ready WHERE ready.seq = jobs.seq);

    INSERT INTO packhorse_counts (queue, state, n)
    SELECT
        jobs.queue,
        CASE
            WHEN EXISTS (SELECT 1 FROM packhorse_ready AS ready WHERE ready.seq = jobs.seq) THEN 'ready'
            WHEN EXISTS (SELECT 1 FROM packhorse_due AS due WHERE due.seq = jobs.seq) THEN 'scheduled'
            ELSE 'waiting'
        END,
        1
    FROM packhorse_moment AS moment CROSS JOIN packhorse_jobs AS jobs ON jobs.seq = moment.number - 1
    WHERE true
    ON CONFLICT DO UPDATE SET n = n + 1;
    INSERT INTO packhorse_lifecycle (at, data) SELECT at, CAST(x'01' || 'q' || x'0001' || NEW.id AS BLOB) FROM packhorse_moment AS moment;
END;
