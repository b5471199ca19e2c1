"""What is in force in a PostgreSQL database and on its server."""

from collections.abc import Iterator
from typing import Any

import asyncpg

from packhorse.model.clock import SYSTEM
from packhorse.model.finding import Durability, Finding, Grade, durability, skew
from packhorse.stores.postgres.layout import Layout

FLOOR = 130000
FEW = 10  # connections; a worker may want as many
LONG = 300  # seconds
OLD = 500_000  # transactions
DEAD = 20_000
Facts = Any  # a row whose columns are known by name


async def findings(connection: "asyncpg.Connection[asyncpg.Record]", layout: Layout) -> list[Finding]:
    """All that the server tells."""
    before = SYSTEM.now()
    [facts] = await connection.fetch(layout.statements.in_force, layout.namespace)
    apart = skew((before + SYSTEM.now()) // 2, facts["now"])
    dead = await connection.fetch(layout.statements.dead_rows, layout.namespace)
    pooled = connection.get_server_pid() != facts["pid"]
    return [
        _version(facts),
        _durability(facts),
        *_safety(facts),
        *_transactions(facts),
        *_connections(facts, pooled=pooled),
        *(_dead(table, rows, living) for table, rows, living in dead),
        _rights(facts, layout),
        apart,
    ]


def _version(facts: Facts) -> Finding:
    if facts["number"] < FLOOR:
        return Finding("PostgreSQL", facts["version"], Grade.BAD, "use PostgreSQL 13 or newer")
    return Finding("PostgreSQL", facts["version"])


def _durability(facts: Facts) -> Finding:
    if facts["synchronous_commit"] == "off":
        words = "killed workers lose nothing, a killed server or a power cut may lose the last 0.6 s"
        advice = "ALTER ROLE … SET synchronous_commit = on"
        return durability(Durability.MEMORY, words, Grade.WARN, advice)
    if facts["fsync"] == "off":
        words = "a killed server loses nothing, a power cut may lose all"
        return durability(Durability.PROCESS, words, Grade.WARN, "set fsync = on in postgresql.conf and reload")
    if facts["standbys"] and facts["synchronous_commit"] != "local":
        return durability(Durability.REPLICATED, "a killed server, a power cut and a failover lose nothing")
    words = "a killed server and a power cut lose nothing that was acknowledged, a failover may lose the tail"
    return durability(Durability.OS, words)


def _safety(facts: Facts) -> Iterator[Finding]:
    yield Finding("synchronous_commit", facts["synchronous_commit"])
    for name in ("fsync", "full_page_writes"):
        if facts[name] == "on":
            yield Finding(name, "on")
        else:
            advice = f"a power cut can destroy the database: set {name} = on in postgresql.conf and reload"
            yield Finding(name, "off", Grade.BAD, advice)
    if facts["recovering"]:
        yield Finding("role of the server", "standby", Grade.BAD, "it takes no writes: use the primary's address")


def _transactions(facts: Facts) -> Iterator[Finding]:
    if facts["encoding"] == "UTF8":
        yield Finding("encoding", facts["encoding"])
    else:
        advice = "it cannot hold all that jobs may carry: use a database made with ENCODING 'UTF8' TEMPLATE template0"
        yield Finding("encoding", facts["encoding"], Grade.BAD, advice)
    if facts["isolation"] == "read committed":
        yield Finding("isolation", facts["isolation"])
    else:
        advice = f"ALTER ROLE {facts['role']} RESET default_transaction_isolation"
        yield Finding("isolation", facts["isolation"], Grade.BAD, advice)
    if facts["autovacuum"] == "on":
        yield Finding("autovacuum", "on")
    else:
        advice = "set autovacuum = on: workers clean the busiest tables, nobody cleans the others"
        yield Finding("autovacuum", facts["autovacuum"], Grade.WARN, advice)
    yield _longest(facts)
    yield _oldest(facts)


def _longest(facts: Facts) -> Finding:
    value = f"{facts['longest']:.0f} s"
    if facts["longest"] > LONG:
        advice = "end it (pg_stat_activity shows it): dead rows cannot be cleaned while it lasts, and claims slow down"
        return Finding("longest transaction", value, Grade.WARN, advice)
    if not facts["sees_all"]:
        advice = f"those of other roles are hidden from {facts['role']}: GRANT pg_read_all_stats TO {facts['role']}"
        return Finding("longest transaction", f"{value}, of those that can be seen", Grade.NOTE, advice)
    return Finding("longest transaction", value)


def _oldest(facts: Facts) -> Finding:
    """Whoever keeps dead rows from being cleaned; not all of them are transactions that run."""
    if facts["age"] is None:
        return Finding("oldest snapshot", "none")
    value = f"{facts['age']:,} transactions ago, held by {facts['holder']}"
    if facts["age"] > OLD:
        advice = "end it, or drop a slot or a prepared transaction that nobody wants: dead rows pile up behind it"
        return Finding("oldest snapshot", value, Grade.WARN, advice)
    return Finding("oldest snapshot", value)


def _connections(facts: Facts, *, pooled: bool) -> Iterator[Finding]:
    free = facts["connections"] - facts["connected"]
    value = f"{facts['connected']} of {facts['connections']} used"
    if free < FEW:
        yield Finding("connections", value, Grade.WARN, "raise max_connections, or put a pooler in between")
    else:
        yield Finding("connections", value)
    if pooled:
        advice = (
            "calls work through it; wake-ups need LISTEN, which transaction pooling does not pass on: give the server's "
            "own address as ?listen=…, or work is found by looking, a little later. A pooler of sessions: ?pooler=session"
        )
        yield Finding("pooler", "somebody stands between here and the server", Grade.NOTE, advice)
    else:
        yield Finding("pooler", "none")


def _dead(table: str, rows: int, living: int) -> Finding:
    if rows > max(DEAD, living):
        advice = "claims have to walk over them: see that a worker runs, and that no transaction stays open"
        return Finding(f"dead rows in {table}", f"{rows:,}", Grade.WARN, advice)
    return Finding(f"dead rows in {table}", f"{rows:,}")


def _rights(facts: Facts, layout: Layout) -> Finding:
    name, who = f"schema {layout.namespace}", facts["role"]
    if facts["may_use"] is None:
        if facts["may_create"]:
            return Finding(name, "not there yet", Grade.NOTE, "`packhorse migrate up` makes it")
        advice = f"GRANT CREATE ON DATABASE … TO {who}, or give `packhorse migrate sql` to somebody who may"
        return Finding(name, f"not there yet, and {who} may not make it", Grade.WARN, advice)
    if not facts["may_use"]:
        return Finding(name, f"{who} may not use it", Grade.BAD, f"GRANT USAGE ON SCHEMA {layout.schema} TO {who}")
    if not facts["may_change"]:
        advice = "fine for workers; run `packhorse migrate up` as the schema's owner"
        return Finding(name, f"{who} may use it and not change its layout", Grade.NOTE, advice)
    return Finding(name, f"{who} may use and change it")
