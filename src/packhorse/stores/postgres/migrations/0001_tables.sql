-- compatible: no
-- A job is one record, written once, and one narrow row in exactly one table, named for its state: scheduled, ready, running,
-- waiting or ended.
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
    enqueued_at bigint NOT NULL,
    due bigint NOT NULL,
    seq bigint,  -- of a job that was enqueued plain: its number in ready, where it stands since it was stored
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
    lane text COLLATE "C"  -- here and in running a laned job always holds a slot
) WITH (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 500000
);
CREATE UNIQUE INDEX ready_order ON {schema}.ready (queue, priority, since, seq);
CREATE UNIQUE INDEX ready_id ON {schema}.ready (id) WHERE NOT fresh;

CREATE TABLE {schema}.scheduled (
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
CREATE INDEX scheduled_plain ON {schema}.scheduled (queue, priority, due, seq) WHERE lane IS NULL OR slot;
CREATE INDEX scheduled_laned ON {schema}.scheduled (queue, due, seq) WHERE lane IS NOT NULL AND NOT slot;
CREATE INDEX scheduled_lane ON {schema}.scheduled (queue, lane, due) WHERE lane IS NOT NULL AND NOT slot;
CREATE INDEX scheduled_arrived ON {schema}.scheduled (queue, lane, due) WHERE arrived;

CREATE TABLE {schema}.running (
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

CREATE TABLE {schema}.waiting (
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
CREATE INDEX waiting_queue ON {schema}.waiting (queue, seq);
CREATE INDEX waiting_lane ON {schema}.waiting (queue, lane, seq) WHERE reason = 'lane';
CREATE INDEX waiting_reason ON {schema}.waiting (reason, seq) WHERE reason <> 'lane';
CREATE INDEX waiting_signal ON {schema}.waiting (on_kind, on_key) WHERE reason = 'signal';

-- Ended jobs of a queue with the same final state and the same retention form one group, pruned oldest first.
CREATE TABLE {schema}.retention_groups (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    keep_count bigint NOT NULL,
    keep_age bigint NOT NULL,
    emptied bigint NOT NULL DEFAULT 0,  -- since when nothing is known to stand on it; 0 if something is
    queue text COLLATE "C" NOT NULL,
    verdict text COLLATE "C" NOT NULL,
    UNIQUE (queue, verdict, keep_count, keep_age)
);

CREATE TABLE {schema}.ended (
    finished bigint NOT NULL,
    id uuid PRIMARY KEY,
    token uuid,  -- of the settlement that ended it
    retention_group integer NOT NULL,
    attempt integer NOT NULL,
    lost integer NOT NULL,
    reason text COLLATE "C",
    result bytea
) WITH (autovacuum_vacuum_insert_threshold = -1);
CREATE INDEX ended_retention_group ON {schema}.ended (retention_group, finished, id);

-- What is left of a pruned job: enough to know its id and its last settlement again.
CREATE TABLE {schema}.tombstones (
    forget bigint NOT NULL,
    id uuid PRIMARY KEY,
    token uuid,
    verdict text COLLATE "C" NOT NULL
);
CREATE INDEX tombstones_forget ON {schema}.tombstones (forget);

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

CREATE TABLE {schema}.unique_keys (
    until bigint NOT NULL,  -- of a window: when it is over
    id uuid NOT NULL,
    scope "char" NOT NULL,
    key text COLLATE "C" PRIMARY KEY
);
CREATE INDEX unique_keys_until ON {schema}.unique_keys (until) WHERE scope = 'w';

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
CREATE TABLE {schema}.count_deltas (
    queue text COLLATE "C" NOT NULL,
    scheduled bigint NOT NULL DEFAULT 0,
    ready bigint NOT NULL DEFAULT 0,
    running bigint NOT NULL DEFAULT 0,
    waiting bigint NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    dead bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0
);

CREATE TABLE {schema}.count_totals (
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
FROM (SELECT * FROM {schema}.count_totals UNION ALL SELECT * FROM {schema}.count_deltas) AS parts
GROUP BY queue
HAVING sum(scheduled + ready + running + waiting + done + dead + cancelled) <> 0;

-- What counts show no more: removed jobs as enqueued, and ends that jobs have left. Rows that calls add, and what prune
-- has folded them into.
CREATE TABLE {schema}.past_count_deltas (
    queue text COLLATE "C" NOT NULL,
    enqueued bigint NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    dead bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0
);

CREATE TABLE {schema}.past_count_totals (
    queue text COLLATE "C" PRIMARY KEY,
    enqueued bigint NOT NULL,
    done bigint NOT NULL,
    dead bigint NOT NULL,
    cancelled bigint NOT NULL
) WITH (fillfactor = 50);

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
CREATE TABLE {schema}.stream_heads (
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

CREATE TABLE {schema}.claim_requests (
    worker uuid PRIMARY KEY,
    at bigint NOT NULL,
    number bigint NOT NULL,  -- the worker's own: what comes with a lower one is too late
    fence bigint NOT NULL,
    token uuid NOT NULL
) WITH (fillfactor = 20);

CREATE TABLE {schema}.idle_workers (
    worker uuid PRIMARY KEY,
    until bigint NOT NULL
) WITH (fillfactor = 20);

CREATE TABLE {schema}.watched_jobs (
    id uuid PRIMARY KEY,
    until bigint NOT NULL
);
CREATE INDEX watched_jobs_until ON {schema}.watched_jobs (until);
