-- A record is written once, at enqueue; a narrow row in exactly one of ready, due, leases, waits, ends says where it stands.
-- Places hold the record's rowid. Numbers come from one counter that never goes back (moment.number).

CREATE TABLE moment (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    at INTEGER NOT NULL,        -- high-water mark of the clock
    number INTEGER NOT NULL     -- last number given to a record, a turn in a line or an end
);
INSERT INTO moment VALUES (1, 0, 0);

CREATE TABLE jobs (
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
CREATE UNIQUE INDEX jobs_id ON jobs (id);

CREATE TABLE ready (
    seq INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    since INTEGER NOT NULL,
    number INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    flags INTEGER NOT NULL
);
CREATE UNIQUE INDEX ready_order ON ready (queue, priority, since, number);

CREATE TABLE due (
    seq INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    since INTEGER NOT NULL,     -- the moment it falls due
    number INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    flags INTEGER NOT NULL
);
CREATE UNIQUE INDEX due_order ON due (queue, since, number);

CREATE TABLE leases (
    seq INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    since INTEGER NOT NULL,     -- with the number: its order when it was claimed
    number INTEGER NOT NULL,
    until INTEGER NOT NULL,
    token BLOB NOT NULL,
    worker BLOB NOT NULL,
    attempt INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    flags INTEGER NOT NULL,
    step INTEGER NOT NULL DEFAULT 0,
    cancelling INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE waits (
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
CREATE INDEX waits_order ON waits (queue, since, number);
CREATE INDEX waits_lane ON waits (queue, lane, number) WHERE lane IS NOT NULL;
CREATE INDEX waits_on ON waits (kind, key) WHERE kind IS NOT NULL;
CREATE INDEX waits_reason ON waits (reason, since, number) WHERE lane IS NULL AND pending IS NULL;

CREATE TABLE shelves (          -- ended jobs that are kept by the same rule
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    state TEXT NOT NULL,
    keep_count INTEGER NOT NULL,
    keep_age INTEGER NOT NULL,
    UNIQUE (queue, state, keep_count, keep_age)
);
CREATE TABLE ends (
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
CREATE INDEX ends_shelf ON ends (shelf, number);

CREATE TABLE tries (            -- what past attempts left behind: their token, and their failure if they had one
    seq INTEGER NOT NULL,
    number INTEGER NOT NULL,
    token BLOB,
    attempt INTEGER NOT NULL,
    at INTEGER NOT NULL,
    error BLOB,
    PRIMARY KEY (seq, number)
) WITHOUT ROWID;

CREATE TABLE notes (seq INTEGER PRIMARY KEY, progress BLOB NOT NULL);

CREATE TABLE tombs (            -- ids of pruned jobs, so that a repeat is known as one
    id BLOB PRIMARY KEY,
    token BLOB,
    state TEXT NOT NULL,
    forget INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX tombs_forget ON tombs (forget);

CREATE TABLE uniques (
    key TEXT PRIMARY KEY,
    id BLOB NOT NULL,
    until INTEGER               -- end of the window; none: until the job starts or ends
) WITHOUT ROWID;
CREATE INDEX uniques_until ON uniques (until) WHERE until IS NOT NULL;

CREATE TABLE lanes (
    queue TEXT NOT NULL,
    lane TEXT NOT NULL,
    held INTEGER NOT NULL,
    PRIMARY KEY (queue, lane)
) WITHOUT ROWID;

CREATE TABLE families (seq INTEGER PRIMARY KEY, delivered INTEGER NOT NULL);

CREATE TABLE queues (name TEXT PRIMARY KEY, paused INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE counts (
    queue TEXT NOT NULL,
    state TEXT NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (queue, state)
) WITHOUT ROWID;

CREATE TABLE asks (worker BLOB PRIMARY KEY, token BLOB NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE workers (id BLOB PRIMARY KEY, until INTEGER NOT NULL, seen INTEGER NOT NULL, facts BLOB NOT NULL) WITHOUT ROWID;

CREATE TABLE records (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    due INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    value BLOB NOT NULL
);
CREATE UNIQUE INDEX records_key ON records (kind, key);
CREATE INDEX records_due ON records (kind, due) WHERE due > 0;
CREATE INDEX records_expires ON records (expires) WHERE expires > 0;

CREATE TABLE heads (stream TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
    stream TEXT NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    key TEXT,
    data BLOB NOT NULL
);
CREATE UNIQUE INDEX events_number ON events (stream, number);
CREATE TABLE lifecycle (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, data BLOB NOT NULL);
