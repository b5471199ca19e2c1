"""What the store can do without any job system: the limits that stand beside the metrics."""

import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.sides.order import Order
from benchmarks.sides.side import Side

BATCH, ROWS = 200, 1_000
PAYLOAD = b"x" * 40
TABLE = "CREATE TABLE raw (id {id} PRIMARY KEY, payload {bytes})"
INSERT = "INSERT INTO raw (payload) VALUES ({payload})"
TAKE = "DELETE FROM raw WHERE id IN (SELECT id FROM raw ORDER BY id LIMIT 200 {lock}) RETURNING id, payload"
Act = Callable[[], Awaitable[int]]  # answers how many jobs it would have been


class Here(Side):
    """No jobs: ``limits`` answers metric by metric what was done instead, and how often a second."""

    async def limits(self, seconds: float) -> dict[str, Any]:
        store = self.order.url.partition(":")[0]
        opened = {"redis": _redis, "postgresql": _postgres, "sqlite": _sqlite}[store]
        found = {}
        async with opened(self.order) as acts:
            for metric, (what, act) in acts.items():
                found[metric] = {"what": what, "value": await _rate(act, seconds)}
        return found


async def _rate(act: Act, seconds: float) -> float:
    await act()
    done, spent = 0, 0.0
    while spent < seconds:
        begun = time.perf_counter()
        jobs = await act()
        if jobs:  # what was done to have more to take does not count
            done, spent = done + jobs, spent + time.perf_counter() - begun
    return done / spent


@asynccontextmanager
async def _redis(order: Order) -> AsyncIterator[dict[str, tuple[str, Act]]]:
    import redis.asyncio

    client = redis.asyncio.from_url(order.url)

    async def one() -> int:
        await client.rpush("raw", PAYLOAD)
        return 1

    async def bulk() -> int:
        await client.rpush("raw", *[PAYLOAD] * ROWS)
        return ROWS

    async def process() -> int:
        pipe = client.pipeline(transaction=True)
        pipe.lpop("raw", BATCH)
        pipe.rpush("ended", *[PAYLOAD] * BATCH)
        taken, _ = await pipe.execute()
        if not taken:
            await client.rpush("raw", *[PAYLOAD] * 50 * ROWS)
        return BATCH if taken else 0

    try:
        yield {
            "one": ("an awaited RPUSH each", one),
            "bulk": (f"RPUSH of {ROWS:,} at once", bulk),
            "process": (f"LPOP of {BATCH} and RPUSH of {BATCH} in a transaction", process),
        }
    finally:
        await client.aclose()


@asynccontextmanager
async def _postgres(order: Order) -> AsyncIterator[dict[str, tuple[str, Act]]]:
    import asyncpg

    connection = await asyncpg.connect(order.url)
    await connection.execute(TABLE.format(id="bigint GENERATED ALWAYS AS IDENTITY", bytes="bytea"))
    single = await connection.prepare(INSERT.format(payload="$1"))
    many = await connection.prepare("INSERT INTO raw (payload) SELECT unnest($1::bytea[])")
    take = await connection.prepare(TAKE.format(lock="FOR UPDATE SKIP LOCKED"))

    async def one() -> int:
        await single.fetch(PAYLOAD)
        return 1

    async def bulk() -> int:
        await many.fetch([PAYLOAD] * ROWS)
        return ROWS

    async def process() -> int:
        taken = len(await take.fetch())
        if not taken:
            await many.fetch([PAYLOAD] * 50 * ROWS)
        return taken

    try:
        yield {
            "one": ("an awaited INSERT each, committed and synced", one),
            "bulk": (f"INSERT of {ROWS:,} rows a commit", bulk),
            "process": (f"DELETE of {BATCH} rows a commit", process),
        }
    finally:
        await connection.close()


@asynccontextmanager
async def _sqlite(order: Order) -> AsyncIterator[dict[str, tuple[str, Act]]]:
    path, _, query = order.url.removeprefix("sqlite:///").partition("?")
    synced = "NORMAL" if "normal" in query else "FULL"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synced}")
    connection.execute(TABLE.format(id="integer", bytes="blob"))
    insert, take = INSERT.format(payload="?"), TAKE.format(lock="")

    async def one() -> int:
        connection.execute(insert, (PAYLOAD,))
        return 1

    async def bulk() -> int:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(insert, [(PAYLOAD,)] * ROWS)
        connection.execute("COMMIT")
        return ROWS

    async def process() -> int:
        taken = len(connection.execute(take).fetchall())
        if not taken:
            for _ in range(50):
                await bulk()
        return taken

    try:
        yield {
            "one": (f"an INSERT each, a commit each at {synced}", one),
            "bulk": (f"INSERT of {ROWS:,} rows a commit at {synced}", bulk),
            "process": (f"DELETE of {BATCH} rows a commit at {synced}", process),
        }
    finally:
        connection.close()
