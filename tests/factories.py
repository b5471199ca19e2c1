"""Small builders that keep tests short."""

import gc
from pathlib import Path
from typing import Any

from packhorse.model.event import LIFECYCLE, Change, unpack
from packhorse.model.ids import new_id
from packhorse.model.job import NewJob, State, StoredJob, failure
from packhorse.model.lease import ClaimRequest, Lease, Lost, Settlement, Share, Verdict
from packhorse.model.outcome import Again, Cancelled, Dead, Done, Held, Outcome, Wait
from packhorse.model.page import Filter
from packhorse.model.reason import DeadReason
from packhorse.model.record import DELIVERED, delivery_key
from packhorse.stores.contract import Store
from packhorse.testing import TurnedClock

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WORKER = bytes(range(16))
OTHER = bytes(range(16, 32))
BROKEN = failure("Broken", "it broke")
DEAD = Dead(DeadReason.FINAL, BROKEN)


def new(task: str = "work", **options: Any) -> NewJob:
    """A job to enqueue."""
    return NewJob(task=task, **options)


def ask(count: int = 10, *queues: str, worker: bytes = WORKER, **options: Any) -> ClaimRequest:
    """An ask for so many jobs of each queue."""
    return ClaimRequest(worker, tuple(Share(queue, count) for queue in queues or ("default",)), **options)


def open_files() -> int:
    """How many files and sockets this process has open."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


async def put_in(store: Store, *jobs: NewJob) -> list[bytes]:
    """Enqueue and answer the ids."""
    return [receipt.id for receipt in await store.jobs.enqueue(jobs)]


async def take(store: Store, count: int = 10, *queues: str, worker: bytes = WORKER) -> list[Lease]:
    """Lease so many jobs of each queue."""
    return list((await store.jobs.exchange((), ask(count, *queues, worker=worker))).leases)


async def end(store: Store, lease: Lease, outcome: Outcome, *effects: Any) -> Verdict:
    """Settle one lease."""
    [verdict] = (await store.jobs.exchange([Settlement(lease, outcome, effects)])).verdicts
    return verdict


async def one(store: Store, job: bytes) -> StoredJob:
    """The job with this id, which must be there."""
    [found] = await store.jobs.get([job])
    assert found is not None
    return found


async def state(store: Store, job: bytes) -> State | None:
    """Where the job stands."""
    [found] = await store.jobs.get([job])
    return found.state if found else None


def laned(lane: str = "a", **options: Any) -> NewJob:
    """A job of a lane."""
    return new(lane=lane, **options)


async def run(store: Store, outcome: Outcome, *effects: Any, queue: str = "default") -> Lease:
    """Lease the best job of a queue and settle it."""
    [lease] = await take(store, 1, queue)
    assert await end(store, lease, outcome, *effects) is Verdict.WRITTEN
    return lease


async def drain(store: Store, queue: str = "default") -> list[bytes]:
    """Run what is there to its end, one by one, and answer the ids in the order they ran."""
    ran = []
    while leases := await take(store, 1, queue):
        ran.append(leases[0].id)
        await end(store, leases[0], Done())
    return ran


async def states(store: Store, *jobs: bytes) -> list[State | None]:
    """Where each job stands."""
    return [found.state if found else None for found in await store.jobs.get(jobs)]


async def found(store: Store, limit: int = 100, **wanted: Any) -> list[StoredJob]:
    """All jobs that fit, page by page."""
    jobs: list[StoredJob] = []
    cursor: str | None = None
    while True:
        page = await store.jobs.find(Filter(**wanted), limit=limit, cursor=cursor)
        jobs += page.items
        cursor = page.cursor
        if cursor is None:
            return jobs


async def changes(store: Store, after: int = 0) -> list[list[tuple[Change, bytes]]]:
    """What the lifecycle of jobs tells, one list per event."""
    return [unpack(event.data) for event in await store.streams.read(LIFECYCLE, after=after, limit=1000)]


async def delivered(store: Store, parent: bytes, child: bytes) -> bytes | None:
    """What the end of a child left for its parent."""
    [record] = await store.records.get(DELIVERED, [delivery_key(parent, child)])
    return record.value if record else None


async def lapse(store: Store, clock: TurnedClock, **options: Any) -> list[Lost]:
    """Let every lease run out and take it back."""
    clock.turn(HOUR)
    return await store.jobs.reap(1000, **options)


async def lose(store: Store, clock: TurnedClock, *steps: int, count: int = 10, **options: Any) -> list[Lost]:
    """Lease jobs, hold these steps of each, and lose them."""
    leases = await take(store, count)
    for step in steps:
        await store.jobs.exchange([Settlement(lease, Held(step)) for lease in leases])
    return await lapse(store, clock, **options)


__all__ = [
    "BROKEN", "DAY", "DEAD", "HOUR", "MINUTE", "OTHER", "SECOND", "WORKER", "Again", "Cancelled", "Change",
    "Dead", "Done", "Held", "Wait", "ask", "changes", "delivered", "drain", "end", "found", "laned", "lapse",
    "lose", "new", "new_id", "one", "put_in", "run", "state", "states", "take",
]  # fmt: skip
