-- A job is one record, written once, and one narrow row in exactly one place: ready, due, leases, waits or ends.
-- A place row carries what the next step needs, so that settling never reads the record and claiming reads it once.
-- The narrow places live under constant insert and delete: autovacuum is set as the net below the caretaker's own.

-- By this a connection is known to lead here. A copy of the database has another tableoid.
CREATE TABLE {schema}.identity (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO {schema}.identity DEFAULT VALUES;

-- One order of arrival for all places. Steps leave room: a call may number all of its jobs from one value on.
CREATE SEQUENCE {schema}.arrival INCREMENT 512;

CREATE TABLE {schema}.jobs (
    id uuid PRIMARY KEY,
    born bigint NOT NULL,
    due bigint NOT NULL,
    seq bigint,  -- of a job that was enqueued plain: its number in ready, where it stands since it was born
    parent uuid,
    children integer NOT NULL DEFAULT 0,
    priority smallint NOT NULL,
    lane_limit smallint NOT NULL DEFAULT 1,
    scope "char",  -- how long the unique key is held: w a window, s until started, f until finished
    queue text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    lane text COLLATE "C",
    tenant text COLLATE "C",
    unique_key text COLLATE "C",
    headers bytea NOT NULL,
    payload bytea NOT NULL
) WITH (autovacuum_vacuum_insert_threshold = -1);

CREATE TABLE {schema}.ready (
    since bigint NOT NULL,
    seq bigint NOT NULL DEFAULT nextval({arrival}),
    id uuid NOT NULL,
    parent uuid,
    attempt integer NOT NULL DEFAULT 0,
    lost integer NOT NULL DEFAULT 0,
    priority smallint NOT NULL,
    lane_limit smallint NOT NULL DEFAULT 1,
    fresh boolean NOT NULL DEFAULT false,  -- stands where its record says; the others are found by their id
    scope "char",  -- set while the job holds a unique key that its start or end frees
    queue text COLLATE "C" NOT NULL,
    lane text COLLATE "C"  -- here and in leases a laned job always holds a slot
) WITH (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 500000
);
CREATE UNIQUE INDEX ready_order ON {schema}.ready (queue, priority, since, seq);
CREATE UNIQUE INDEX ready_id ON {schema}.ready (id) WHERE NOT fresh;

CREATE TABLE {schema}.due (
    due bigint NOT NULL,
    seq bigint NOT NULL DEFAULT nextval({arrival}),
    id uuid PRIMARY KEY,
    parent uuid,
    attempt integer NOT NULL,
    lost integer NOT NULL,
    priority smallint NOT NULL,
    lane_limit smallint NOT NULL,
    slot boolean NOT NULL,  -- a retry keeps its slot in its lane
    arrived boolean NOT NULL DEFAULT false,  -- could be ready, but came by a call that must not lock its lane
    scope "char",
    queue text COLLATE "C" NOT NULL,
    lane text COLLATE "C"
) WITH (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 500000
);
-- Claimed in place, merged with ready; the others must ask their lane first and are moved.
CREATE INDEX due_plain ON {schema}.due (queue, priority, due, seq) WHERE lane IS NULL OR slot;
CREATE INDEX due_laned ON {schema}.due (queue, due, seq) WHERE lane IS NOT NULL AND NOT slot;
CREATE INDEX due_lane ON {schema}.due (queue, lane, due) WHERE lane IS NOT NULL AND NOT slot;
CREATE INDEX due_arrived ON {schema}.due (queue, lane, due) WHERE arrived;

CREATE TABLE {schema}.leases (
    claimed bigint NOT NULL,
    until bigint NOT NULL,  -- no index: renewals stay in their page, reap reads the whole small table
    since bigint NOT NULL,
    seq bigint NOT NULL,
    id uuid PRIMARY KEY,
    token uuid NOT NULL,
    worker uuid NOT NULL,
    parent uuid,
    attempt integer NOT NULL,
    lost integer NOT NULL,
    step integer NOT NULL DEFAULT 0,
    priority smallint NOT NULL,
    lane_limit smallint NOT NULL,
    cancelling boolean NOT NULL DEFAULT false,
    scope "char",
    queue text COLLATE "C" NOT NULL,
    lane text COLLATE "C"
) WITH (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 500000
);

CREATE TABLE {schema}.waits (
    since bigint NOT NULL,
    seq bigint NOT NULL DEFAULT nextval({arrival}),
    after bigint,  -- of a signal: the version that is not enough
    id uuid PRIMARY KEY,
    parent uuid,
    attempt integer NOT NULL,
    lost integer NOT NULL,
    pending integer,  -- of children: how many in all must have ended
    priority smallint NOT NULL,
    lane_limit smallint NOT NULL,
    slot boolean NOT NULL,
    scope "char",
    reason text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    lane text COLLATE "C",
    on_kind text COLLATE "C",
    on_key text COLLATE "C",
    detail text
) WITH (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 500000
);
CREATE INDEX waits_queue ON {schema}.waits (queue, seq);
CREATE INDEX waits_lane ON {schema}.waits (queue, lane, seq) WHERE reason = 'lane';
CREATE INDEX waits_reason ON {schema}.waits (reason, seq) WHERE reason <> 'lane';
CREATE INDEX waits_signal ON {schema}.waits (on_kind, on_key) WHERE reason = 'signal';

-- Ended jobs of a queue with the same end and the same keep stand on one shelf, oldest first.
CREATE TABLE {schema}.shelves (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    keep_count bigint NOT NULL,
    keep_age bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    verdict text COLLATE "C" NOT NULL,
    UNIQUE (queue, verdict, keep_count, keep_age)
);

CREATE TABLE {schema}.ends (
    finished bigint NOT NULL,
    id uuid PRIMARY KEY,
    token uuid,  -- of the settlement that ended it
    shelf integer NOT NULL,
    attempt integer NOT NULL,
    lost integer NOT NULL,
    reason text COLLATE "C",
    result bytea
) WITH (autovacuum_vacuum_insert_threshold = -1);
CREATE INDEX ends_shelf ON {schema}.ends (shelf, finished, id);

-- What is left of a pruned job: enough to know its id and its last settlement again.
CREATE TABLE {schema}.tombs (
    forget bigint NOT NULL,
    id uuid PRIMARY KEY,
    token uuid,
    verdict text COLLATE "C" NOT NULL
);
CREATE INDEX tombs_forget ON {schema}.tombs (forget);

-- Tries that did not end their job: the token makes a repeat known, the error is kept for people.
CREATE TABLE {schema}.tries (
    seq bigint GENERATED ALWAYS AS IDENTITY,
    at bigint NOT NULL,
    id uuid NOT NULL,
    token uuid,
    attempt integer NOT NULL,
    error bytea,
    PRIMARY KEY (id, seq)
);

CREATE TABLE {schema}.progress (
    id uuid PRIMARY KEY,
    data bytea NOT NULL
);

-- How many children of a job have been delivered; its row is the lock under which they are counted.
CREATE TABLE {schema}.families (
    id uuid PRIMARY KEY,
    delivered integer NOT NULL
);

CREATE TABLE {schema}.uniques (
    until bigint NOT NULL,  -- of a window: when it is over
    id uuid NOT NULL,
    scope "char" NOT NULL,
    key text COLLATE "C" PRIMARY KEY
);
CREATE INDEX uniques_until ON {schema}.uniques (until) WHERE scope = 'w';

-- Slots taken in a lane; no row means none. The row is the lock under which jobs enter and leave the line behind it.
CREATE TABLE {schema}.lanes (
    held integer NOT NULL,
    queue text COLLATE "C",
    lane text COLLATE "C",
    PRIMARY KEY (queue, lane)
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE TABLE {schema}.queues (
    name text COLLATE "C" PRIMARY KEY,
    paused boolean NOT NULL
);

-- What each call changed in the counts; reap folds it into one row a queue.
CREATE TABLE {schema}.deltas (
    queue text COLLATE "C" NOT NULL,
    scheduled bigint NOT NULL DEFAULT 0,
    ready bigint NOT NULL DEFAULT 0,
    running bigint NOT NULL DEFAULT 0,
    waiting bigint NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    dead bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0
);

CREATE TABLE {schema}.folded (
    queue text COLLATE "C" PRIMARY KEY,
    scheduled bigint NOT NULL,
    ready bigint NOT NULL,
    running bigint NOT NULL,
    waiting bigint NOT NULL,
    done bigint NOT NULL,
    dead bigint NOT NULL,
    cancelled bigint NOT NULL
) WITH (fillfactor = 50);

-- The jobs of every queue that holds any.
CREATE VIEW {schema}.counts AS
SELECT
    queue, sum(scheduled)::bigint AS scheduled, sum(ready)::bigint AS ready, sum(running)::bigint AS running,
    sum(waiting)::bigint AS waiting, sum(done)::bigint AS done, sum(dead)::bigint AS dead,
    sum(cancelled)::bigint AS cancelled
FROM (SELECT * FROM {schema}.folded UNION ALL SELECT * FROM {schema}.deltas) AS parts
GROUP BY queue
HAVING sum(scheduled + ready + running + waiting + done + dead + cancelled) <> 0;

CREATE TABLE {schema}.records (
    version bigint NOT NULL,
    due bigint NOT NULL,
    expires bigint NOT NULL,
    kind text COLLATE "C",
    key text COLLATE "C",
    value bytea NOT NULL,
    PRIMARY KEY (kind, key)
);
CREATE INDEX records_due ON {schema}.records (kind, due, key) WHERE due > 0;
CREATE INDEX records_expires ON {schema}.records (expires) WHERE expires > 0;

-- The head's row is locked last in a short transaction, so offsets are dense and appear in order.
CREATE TABLE {schema}.heads (
    last bigint NOT NULL,
    stream text COLLATE "C" PRIMARY KEY
) WITH (fillfactor = 20);

CREATE TABLE {schema}.events (
    "offset" bigint,
    at bigint NOT NULL,
    stream text COLLATE "C",
    key text COLLATE "C",
    data bytea NOT NULL,
    PRIMARY KEY (stream, "offset")
);

-- The lifecycle of jobs is written without a lock on its head: offsets are given when it is read.
CREATE TABLE {schema}.lifecycle (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    "offset" bigint,
    data bytea NOT NULL
);
ALTER TABLE {schema}.lifecycle ALTER data SET STORAGE EXTERNAL;  -- ids do not compress
CREATE INDEX lifecycle_new ON {schema}.lifecycle (seq) WHERE "offset" IS NULL;
CREATE INDEX lifecycle_offset ON {schema}.lifecycle ("offset") WHERE "offset" IS NOT NULL;

CREATE TABLE {schema}.workers (
    until bigint NOT NULL,
    seen bigint NOT NULL,
    id uuid PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    body bytea NOT NULL
);

CREATE TABLE {schema}.asks (
    worker uuid PRIMARY KEY,
    at bigint NOT NULL,
    number bigint NOT NULL,  -- the worker's own: what comes with a lower one is too late
    fence bigint NOT NULL,
    token uuid NOT NULL
) WITH (fillfactor = 20);

CREATE TABLE {schema}.sleepers (
    worker uuid PRIMARY KEY,
    until bigint NOT NULL
) WITH (fillfactor = 20);

CREATE TABLE {schema}.watched (
    id uuid PRIMARY KEY,
    until bigint NOT NULL
);
CREATE INDEX watched_until ON {schema}.watched (until);

-- A job on its way to ready, with or without a slot in its lane.
CREATE TYPE {schema}.newcomer AS (
    id uuid,
    parent uuid,
    since bigint,
    attempt integer,
    lost integer,
    priority smallint,
    lane_limit smallint,
    slot boolean,
    scope "char",
    queue text COLLATE "C",
    lane text COLLATE "C",
    seq bigint  -- of one that has come due: its arrival, which it keeps
);

-- A job that has left its place for good.
CREATE TYPE {schema}.ended AS (
    id uuid,
    parent uuid,
    attempt integer,
    lost integer,
    slot boolean,
    scope "char",
    queue text COLLATE "C",
    lane text COLLATE "C",
    was text,
    verdict text,
    result bytea
);

CREATE TYPE {schema}.wish AS (
    kind text COLLATE "C",
    key text COLLATE "C",
    value bytea,
    expect bigint,
    due bigint,
    expires bigint
);
