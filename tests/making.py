"""Small builders that keep tests short."""

from typing import Any

from packhorse.model.ids import new_id
from packhorse.model.job import Job, NewJob, State
from packhorse.model.lease import Ask, Lease, Settlement, Share, Verdict
from packhorse.model.outcome import Again, Cancelled, Dead, Done, Held, Outcome, Wait
from packhorse.stores.contract import Store

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WORKER = bytes(range(16))


def new(task: str = "work", **options: Any) -> NewJob:
    """A job to enqueue."""
    return NewJob(task=task, **options)


def ask(count: int = 10, *queues: str, worker: bytes = WORKER, **options: Any) -> Ask:
    """An ask for so many jobs of each queue."""
    return Ask(worker, tuple(Share(queue, count) for queue in queues or ("default",)), **options)


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


async def one(store: Store, job: bytes) -> Job:
    """The job with this id, which must be there."""
    [found] = await store.jobs.get([job])
    assert found is not None
    return found


async def state(store: Store, job: bytes) -> State | None:
    """Where the job stands."""
    [found] = await store.jobs.get([job])
    return found.state if found else None


__all__ = [
    "DAY", "HOUR", "MINUTE", "SECOND", "WORKER", "Again", "Cancelled", "Dead", "Done", "Held", "Wait",
    "ask", "end", "new", "new_id", "one", "put_in", "state", "take",
]  # fmt: skip
