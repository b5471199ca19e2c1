"""Something of everything in a store, and what must be true of it wherever a power cut has ended its log."""

import os
import random
from collections import Counter

from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.job import KEEP_DONE, Retention, State, UniqueKey
from packhorse.model.lease import Lease, Settlement, Verdict
from packhorse.model.outcome import Again, Dead, Done, Outcome, Wait
from packhorse.model.reason import DeadReason, WaitReason
from packhorse.stores.contract import Store
from packhorse.testing import TurnedClock
from tests.conformance.invariants import check
from tests.factories import BROKEN, HOUR, MINUTE, found, new, put_in, take

LONG = bool(os.environ.get("PACKHORSE_TEST_LONG"))  # the figures of `make crash-long`


async def work(store: Store, clock: TurnedClock, chance: random.Random) -> list[Lease]:
    """Something of everything; the leases that are held in the end."""
    held: list[Lease] = []
    for number in range(20):
        parent = new(children=1)
        new_jobs = [new(), new(lane="a"), new(delay=MINUTE), new(unique=UniqueKey(f"u{number % 5}")), parent]
        await put_in(store, *new_jobs, new(parent=parent.id, priority=number % 3))
        held += await take(store, 4)
        clock.turn(MINUTE // 4)
        chance.shuffle(held)
        ending, held = held[:3], held[3:]
        outcomes: list[Outcome] = [
            Done(b"1", Retention(20, HOUR)),
            Again(chance.choice((0, MINUTE)), BROKEN),
            Wait(WaitReason.UNROUTABLE),
        ]
        effects = (Enqueue(new(lane="b")), Publish("news", b"1"), Put("kind", f"k{number % 3}", b"1"))
        settlements = [Settlement(lease, chance.choice(outcomes), effects) for lease in ending]
        await store.jobs.exchange(settlements)
        await store.jobs.release(WaitReason.UNROUTABLE)
        if number % 5 == 4:
            await store.jobs.cancel([parent.id], keep=KEEP_DONE)
            await store.jobs.reap(5)
            await store.jobs.prune(50)
    return held


async def audit(store: Store, held: list[Lease], clock: TurnedClock) -> None:
    """Each record has one place, a lease is settled at most once, and all that is left can be run."""
    await check(store)
    first = (await store.jobs.exchange([Settlement(lease, Done()) for lease in held])).verdicts
    again = (await store.jobs.exchange([Settlement(lease, Done()) for lease in held])).verdicts
    assert Verdict.WRITTEN not in again
    assert [v is Verdict.WRITTEN for v in first] == [
        v is Verdict.REPEATED and w is not v for v, w in zip(again, first, strict=True)
    ]
    clock.turn(HOUR)
    await store.jobs.reap(500)
    await store.jobs.release(WaitReason.UNROUTABLE)
    while leases := await take(store, 500):
        await store.jobs.exchange([Settlement(lease, Dead(DeadReason.FINAL, BROKEN)) for lease in leases])
    await check(store)
    states = Counter(job.state for job in await found(store, limit=1000))
    assert not states.keys() & {State.READY, State.RUNNING, State.SCHEDULED}, states
