-- Composite types that the functions of this set hand to each other.

-- A job on its way to ready, with or without a slot in its lane.
CREATE TYPE {set}newcomer AS (
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
CREATE TYPE {set}ended_job AS (
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

-- A write of a record by compare-and-set; without a value it is dropped.
CREATE TYPE {set}record_put AS (
    kind text COLLATE "C",
    key text COLLATE "C",
    value bytea,
    expect bigint,
    due bigint,
    expires bigint
);
