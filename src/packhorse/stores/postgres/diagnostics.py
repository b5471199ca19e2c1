"""What is in force in a PostgreSQL database and on its server."""

from collections.abc import Iterator
from typing import Any

import asyncpg

from packhorse.model.clock import SYSTEM
from packhorse.model.finding import Durability, Finding, Grade, durability, skew
from packhorse.stores.postgres.layout import Layout
from packhorse.stores.postgres.within import FRESH

MIN_VERSION = 130000
MIN_CONNECTIONS = 10  # a worker may want as many
LONG_TRANSACTION_SECONDS = 300
OLD_TRANSACTIONS = 500_000  # by age in transaction ids
MANY_DEAD_ROWS = 20_000
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
    if facts["number"] < MIN_VERSION:
        return Finding("PostgreSQL", facts["version"], Grade.BAD, "use PostgreSQL 13 or newer")
    return Finding("PostgreSQL", facts["version"])


def _durability(facts: Facts) -> Finding:
    if facts["synchronous_commit"] == "off":
        words = "killed workers lose nothing, a killed server or a power cut may lose the last 0.6 s"
        advice = "ALTER ROLE … SET synchronous_commit = on"
        return durability(Durability.MEMORY, words, Grade.WARN, advice)
    if facts["fsync"] == "off":
        words = "a killed server loses nothing, a power cut may lose everything"
        return durability(Durability.PROCESS, words, Grade.WARN, "set fsync = on in postgresql.conf and reload")
    if facts["standbys"] and facts["synchronous_commit"] != "local":
        return durability(Durability.REPLICATED, "a killed server, a power cut and a failover lose nothing")
    words = "a killed server and a power cut lose nothing that was acknowledged, a failover may lose the last writes"
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
        yield Finding("role of the server", "standby", Grade.BAD, "it accepts no writes: use the primary's address")


def _transactions(facts: Facts) -> Iterator[Finding]:
    if facts["encoding"] == "UTF8":
        yield Finding("encoding", facts["encoding"])
    else:
        advice = "it cannot store all texts: use a database created with ENCODING 'UTF8' TEMPLATE template0"
        yield Finding("encoding", facts["encoding"], Grade.BAD, advice)
    if facts["isolation"] in FRESH:
        yield Finding("isolation", facts["isolation"])
    else:
        advice = f"ALTER ROLE {facts['role']} RESET default_transaction_isolation"
        yield Finding("isolation", facts["isolation"], Grade.BAD, advice)
    if facts["autovacuum"] == "on":
        yield Finding("autovacuum", "on")
    else:
        advice = "set autovacuum = on: workers vacuum only the busiest tables"
        yield Finding("autovacuum", facts["autovacuum"], Grade.WARN, advice)
    yield _longest(facts)
    yield _oldest(facts)


def _longest(facts: Facts) -> Finding:
    value = f"{facts['longest']:.0f} s"
    if facts["longest"] > LONG_TRANSACTION_SECONDS:
        advice = (
            "end it (pg_stat_activity shows it): dead rows cannot be removed while it is open, and claims slow down"
        )
        return Finding("longest transaction", value, Grade.WARN, advice)
    if not facts["sees_all"]:
        advice = f"those of other roles are hidden from {facts['role']}: GRANT pg_read_all_stats TO {facts['role']}"
        return Finding("longest transaction", f"{value}, among the visible ones", Grade.NOTE, advice)
    return Finding("longest transaction", value)


def _oldest(facts: Facts) -> Finding:
    """Whoever keeps dead rows from being cleaned; not all of them are transactions that run."""
    if facts["age"] is None:
        return Finding("oldest snapshot", "none")
    value = f"{facts['age']:,} transactions ago, held by {facts['holder']}"
    if facts["age"] > OLD_TRANSACTIONS:
        advice = "end it, or drop an unused slot or prepared transaction: dead rows pile up while it exists"
        return Finding("oldest snapshot", value, Grade.WARN, advice)
    return Finding("oldest snapshot", value)


def _connections(facts: Facts, *, pooled: bool) -> Iterator[Finding]:
    free = facts["connections"] - facts["connected"]
    value = f"{facts['connected']} of {facts['connections']} used"
    if free < MIN_CONNECTIONS:
        yield Finding("connections", value, Grade.WARN, "raise max_connections, or use a pooler")
    else:
        yield Finding("connections", value)
    if pooled:
        advice = (
            "calls work through it; wake-ups need LISTEN, which transaction pooling does not pass on: add the server's "
            "own address as ?listen=…, or workers poll for work. For a pooler in session mode add ?pooler=session"
        )
        yield Finding("pooler", "there is one before the server", Grade.NOTE, advice)
    else:
        yield Finding("pooler", "none")


def _dead(table: str, rows: int, living: int) -> Finding:
    if rows > max(MANY_DEAD_ROWS, living):
        advice = "they slow down claims: make sure that a worker runs and that no transaction stays open"
        return Finding(f"dead rows in {table}", f"{rows:,}", Grade.WARN, advice)
    return Finding(f"dead rows in {table}", f"{rows:,}")


def _rights(facts: Facts, layout: Layout) -> Finding:
    name, who = f"schema {layout.namespace}", facts["role"]
    if facts["may_use"] is None:
        if facts["may_create"]:
            return Finding(name, "does not exist yet", Grade.NOTE, "`packhorse migrate up` creates it")
        advice = (
            f"GRANT CREATE ON DATABASE … TO {who}, or give the output of `packhorse migrate sql` to somebody who may"
        )
        return Finding(name, f"does not exist yet, and {who} may not create it", Grade.WARN, advice)
    if not facts["may_use"]:
        return Finding(name, f"{who} may not use it", Grade.BAD, f"GRANT USAGE ON SCHEMA {layout.schema} TO {who}")
    if not facts["may_change"]:
        advice = "fine for workers; run `packhorse migrate up` as the schema's owner"
        return Finding(name, f"{who} may use it but not change its layout", Grade.NOTE, advice)
    return Finding(name, f"{who} may use and change it")
