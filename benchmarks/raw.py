"""Exchange throughput of each store with a trivial handler: no engine, just the one move.

The loop: an exchange (settle the last batch, claim the next) is in flight while the batch in hand is decoded and
encoded again. Rate = jobs / (last settle answered - first claim sent). Every run is checked: each job exactly once,
every verdict written, lanes in order. Beside each figure stands that of the design study it was built from.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from packhorse.model.job import NewJob
from packhorse.model.lease import ClaimRequest, Lease, Settlement, Share, Verdict
from packhorse.model.outcome import Done
from packhorse.stores import open_store
from packhorse.stores.contract import Store

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests import servers

BATCHES = (1, 10, 100, 200, 500)
STUDY = {  # jobs/s at batch 200, one worker: plain, 1,000 lanes, bulk enqueue (store-design study, 2 shared cores)
    "sqlite": (63_455, 20_448, 106_150),
    "redis": (63_550, 39_481, 106_000),
    "valkey": (63_550, 39_481, 106_000),
    "postgres": (38_123, 14_604, 43_396),
}
SETTINGS: dict[str, tuple[str, ...]] = {"postgres": ("synchronous_commit=on", "shared_buffers=128MB")}
HEADERS = b'{"correlation":"0123456789abcdef","tenant":"t1"}'
decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode


@dataclass
class Run:
    """One run over a store."""

    rate: float
    bulk: float
    slowest: float
    order: dict[str, list[int]] = field(default_factory=dict)


def jobs(count: int, lanes: int) -> Iterator[NewJob]:
    """Jobs in arrival order, each with its running number."""
    for number in range(count):
        lane = f"k{number % lanes}" if lanes else None
        yield NewJob(task="app.tasks.noop", payload=encode({"n": number}), headers=HEADERS, lane=lane)


async def handle(lease: Lease) -> Settlement:
    """Stands for a user's function: decode, run, encode."""
    return Settlement(lease, Done(encode(decode(lease.payload)["n"])))


async def fill(store: Store, count: int, lanes: int) -> float:
    """Enqueue in bulk; jobs a second."""
    made = list(jobs(count, lanes))
    begun = time.perf_counter()
    for first in range(0, count, 500):
        receipts = await store.jobs.enqueue(made[first : first + 500])
        assert all(receipt.created for receipt in receipts)
    return count / (time.perf_counter() - begun)


async def drain(store: Store, batch: int, count: int) -> Run:
    """Work the queue off with one exchange in flight."""
    seen: set[int] = set()
    order: dict[str, list[int]] = {}
    settlements: list[Settlement] = []
    hand: tuple[Lease, ...] = ()
    worker, slowest, upkeep = os.urandom(16), 0.0, time.perf_counter()
    begun = time.perf_counter()
    while True:
        sent = time.perf_counter()
        exchange = asyncio.ensure_future(
            store.jobs.exchange(settlements, ClaimRequest(worker, (Share("default", batch),)))
        )
        await asyncio.sleep(0)
        settlements = [await handle(lease) for lease in hand]
        answer = await exchange
        slowest = max(slowest, time.perf_counter() - sent)
        assert all(verdict is Verdict.WRITTEN for verdict in answer.verdicts)
        hand = answer.leases
        for lease in hand:
            number = decode(lease.payload)["n"]
            seen.add(number)
            if lease.lane:
                order.setdefault(lease.lane, []).append(number)
        if not hand and not settlements:
            break
        if time.perf_counter() - upkeep > 0.25 and hasattr(store, "maintain"):
            await store.maintain()
            upkeep = time.perf_counter()
    rate = count / (time.perf_counter() - begun)
    assert len(seen) == count, f"{len(seen)} of {count} jobs ran"
    assert all(numbers == sorted(numbers) for numbers in order.values()), "a lane ran out of order"
    return Run(rate, 0, slowest, order)


@contextlib.asynccontextmanager
async def fresh(kind: str, url: str) -> AsyncIterator[Store]:
    """An empty store."""
    if kind == "sqlite":
        for ending in ("", "-wal", "-shm", ".lock"):
            Path(url.removeprefix("sqlite:///") + ending).unlink(missing_ok=True)
    elif kind == "postgres":
        import asyncpg

        connection = await asyncpg.connect(url)
        await connection.execute("drop schema if exists packhorse cascade")
        await connection.close()
    else:
        import redis.asyncio

        client = redis.asyncio.from_url(url.replace("valkey://", "redis://"))
        await client.flushall()
        await client.aclose()
    store = open_store(url)
    await store.migrate()
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def once(kind: str, url: str, batch: int, lanes: int, count: int) -> Run:
    """One fill and one drain on an empty store."""
    async with fresh(kind, url) as store:
        bulk = await fill(store, count, lanes)
        run = await drain(store, batch, count)
        run.bulk = bulk
        return run


def measure(kind: str, url: str, options: argparse.Namespace) -> list[str]:
    """All figures of a store, as lines of a table."""
    lines = []
    for lanes in (0, 1000):
        for batch in options.batches:
            count = max(1000, min(options.jobs, batch * options.jobs // 200))
            runs = [asyncio.run(once(kind, url, batch, lanes, count)) for _ in range(options.runs)]
            rate, bulk = statistics.median(run.rate for run in runs), statistics.median(run.bulk for run in runs)
            slowest, name = max(run.slowest for run in runs) * 1000, "1,000 lanes" if lanes else "plain"
            line = f"{kind:9} {name:12} {batch:5} {count:8,} {rate:10,.0f} {bulk:10,.0f} {slowest:8.1f}"
            if batch == 200:
                study = STUDY[kind]
                line += f"   study {study[1 if lanes else 0]:7,} (x{rate / study[1 if lanes else 0]:.2f})"
                line += "" if lanes else f"  bulk {study[2]:7,} (x{bulk / study[2]:.2f})"
            print(line, flush=True)
            lines.append(line)
    return lines


def main() -> None:
    """Measure the stores named, all by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stores", nargs="*", default=list(STUDY), help="sqlite redis valkey postgres")
    parser.add_argument("--jobs", type=int, default=60_000, help="jobs a run at batch 200")
    parser.add_argument("--runs", type=int, default=3, help="runs a figure; the median counts")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES, help="batch sizes")
    options = parser.parse_args()
    with contextlib.suppress(ImportError):
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    print(f"{'store':9} {'jobs':12} {'batch':>5} {'count':>8} {'jobs/s':>10} {'bulk/s':>10} {'slow ms':>8}")
    for kind in options.stores:
        if kind == "sqlite":
            with tempfile.TemporaryDirectory(dir=".") as folder:
                measure(kind, f"sqlite:///{Path(folder).resolve() / 'raw.db'}", options)
        else:
            with servers.running(kind, *SETTINGS.get(kind, ())) as server:
                print(f"{kind} {server.version} ({server.source})")
                measure(kind, server.url, options)


if __name__ == "__main__":
    main()
