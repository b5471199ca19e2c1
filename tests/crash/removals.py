"""Processes that enqueue, settle, replay, drop and prune jobs until they are killed with SIGKILL, again and again.

Each job that is enqueued and each end is written together with a record that names it, so that the records say what the
totals of the queues have to be.
"""

import os
import random
import sys

from packhorse.model.effect import Enqueue, Put
from packhorse.model.job import Failure, NewJob, Retention, State
from packhorse.model.lease import ClaimRequest, Lease, Settlement, Share
from packhorse.model.outcome import Cancelled, Dead, Done
from packhorse.model.page import Filter
from packhorse.model.reason import DeadReason
from packhorse.stores import open_store
from packhorse.stores.contract import Store
from tests.crash.loop import LEASE, NEVER_POISON, main

QUEUES = ("a", "b")
ENQUEUED, ENDED = "test.enqueued", "test.ended"
FEW = Retention(2, 3600_000_000)
OUTCOMES: dict[State, Done | Dead | Cancelled] = {
    State.DONE: Done(keep=FEW),
    State.DEAD: Dead(DeadReason.FINAL, Failure("Broken"), FEW),
    State.CANCELLED: Cancelled(FEW),
}


async def live(url: str, namespace: str, _ledger: int, begun: int, chance: random.Random) -> None:
    """Do all that moves jobs into and out of the totals, for ever; says so once it is under way, and after each round."""
    store = open_store(url, namespace=namespace)
    await store.open()
    os.write(begun, b"1")
    worker, settlements = os.urandom(16), []
    while True:
        await enqueue(store, [NewJob(task="work", queue=chance.choice(QUEUES)) for _ in range(chance.randint(1, 6))])
        ask = ClaimRequest(worker, tuple(Share(queue, 8) for queue in QUEUES), LEASE)
        answer = await store.jobs.exchange(settlements, ask)
        settlements = [end(lease, chance.choice(tuple(OUTCOMES))) for lease in answer.leases]
        ended = await store.jobs.find(Filter(state=chance.choice((State.DEAD, State.CANCELLED))), limit=4, bodies=False)
        await store.jobs.replay([job.id for job in ended.items])
        some = await store.jobs.find(Filter(state=chance.choice(tuple(State))), limit=2, bodies=False)
        await store.jobs.drop([job.id for job in some.items])
        await store.jobs.prune(chance.randint(1, 20))
        await store.jobs.reap(100, max_lost=NEVER_POISON)
        os.write(begun, b"1")


async def enqueue(store: Store, jobs: list[NewJob]) -> None:
    """Store jobs, each with the record that it was."""
    await store.jobs.fire([(Enqueue(job), Put(ENQUEUED, f"{job.queue}/{job.id.hex()}", b"1")) for job in jobs])


def end(lease: Lease, state: State) -> Settlement:
    """The end of a job with the record of it; a job that was replayed ends under another token."""
    record = Put(ENDED, f"{lease.queue}/{state}/{lease.id.hex()}/{lease.token.hex()}", b"1")
    return Settlement(lease, OUTCOMES[state], (record,))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), live=live)
