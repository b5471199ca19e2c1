"""A long and varied life, by chance but always the same: whatever happens, nothing is lost, doubled or stuck."""

import random
from collections import Counter
from typing import Any

import pytest

from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.job import NewJob, Retention, State, UniqueKey, Until
from packhorse.model.lease import Lease, Settlement, Verdict
from packhorse.model.outcome import On
from packhorse.model.reason import WaitReason
from tests.conformance.invariants import check
from tests.factories import (
    BROKEN,
    DEAD,
    HOUR,
    MINUTE,
    OTHER,
    SECOND,
    WORKER,
    Again,
    Cancelled,
    Done,
    Held,
    Wait,
    ask,
    found,
    new,
)

QUEUES = ("a", "b")
LANES = {"narrow": 1, "wide": 3}
PARKED = (WaitReason.CIRCUIT, WaitReason.SIGNAL, WaitReason.INTERVENTION)


class Life:
    """Does one thing after another to a store."""

    def __init__(self, store, clock, seed: int) -> None:
        self.store, self.clock, self.chance = store, clock, random.Random(seed)
        self.held: list[Lease] = []
        self.settled: list[Settlement] = []
        self.known: list[bytes] = []
        self.steps = 0

    def some(self, most: int = 3) -> list[bytes]:
        return self.chance.sample(self.known, min(most, len(self.known)))

    def new_job(self, **options) -> NewJob:
        chance = self.chance
        lane = chance.choice([None, None, *LANES])
        job = new(
            queue=chance.choice(QUEUES),
            priority=chance.randrange(3),
            delay=chance.choice([0, 0, 0, SECOND, MINUTE]),
            lane=lane,
            lane_limit=LANES[lane] if lane else 1,
            **options,
        )
        self.known.append(job.id)
        return job

    async def enqueue(self) -> None:
        scope = self.chance.choice([None, None, Until.STARTED, Until.FINISHED, Until.WINDOW])
        unique = scope and UniqueKey(self.chance.choice("xyz"), scope, MINUTE if scope is Until.WINDOW else 0)
        await self.store.jobs.enqueue([self.new_job(), self.new_job(unique=unique), self.new_job()])

    async def family(self) -> None:
        size = self.chance.randrange(1, 4)
        parent = self.new_job(children=size)
        await self.store.jobs.enqueue([parent, *(self.new_job(parent=parent.id) for _ in range(size))])

    def outcome(self, lease: Lease) -> Any:
        self.steps += 1
        child = Enqueue(self.new_job(parent=lease.id))
        return self.chance.choice(
            [
                (Done(b"1"), ()),
                (Done(b"1", Retention(1, MINUTE)), (child,)),
                (Again(error=BROKEN), ()),
                (Again(MINUTE, charged=False), (Publish("news", b"1"),)),
                (Wait(WaitReason.CHILDREN, children=1), (child,)),
                (Wait(WaitReason.SIGNAL, On("signal", "go")), ()),
                (Wait(WaitReason.CIRCUIT), (Put("signal", "go", b"1"),)),
                (Wait(WaitReason.INTERVENTION), ()),
                (DEAD, ()),
                (Cancelled(), (Put("kind", "key", b"1", expect=0),)),
                (Held(self.steps), (child,)),
            ]
        )

    async def exchange(self) -> None:
        chance = self.chance
        chance.shuffle(self.held)
        count = chance.randrange(4)
        batch = [Settlement(lease, *self.outcome(lease)) for lease in self.held[:count]]
        request = ask(chance.randrange(5), *QUEUES, worker=chance.choice((WORKER, OTHER)))
        answer = await self.store.jobs.exchange(batch, request)
        for settlement, verdict in zip(batch, answer.verdicts, strict=True):
            assert verdict is not Verdict.REPEATED
            if verdict is Verdict.WRITTEN:
                self.settled.append(settlement)
            if verdict is Verdict.LOST or (verdict is Verdict.WRITTEN and not isinstance(settlement.outcome, Held)):
                self.held.remove(settlement.lease)
        self.held += answer.leases
        await self.no_lane_is_too_full()

    async def repeat(self) -> None:
        if self.settled:
            again = self.chance.choice(self.settled)
            [verdict] = (await self.store.jobs.exchange([again])).verdicts
            assert verdict in (Verdict.REPEATED, Verdict.LOST)

    async def tidy(self) -> None:
        self.clock.turn(self.chance.choice([SECOND, MINUTE]))
        await self.store.jobs.reap(5)
        await self.store.jobs.prune(5)

    async def call_off(self) -> None:
        await self.store.jobs.cancel(self.some())

    async def replay(self) -> None:
        await self.store.jobs.replay(self.some(20))

    async def promote(self) -> None:
        await self.store.jobs.promote(self.some(20))

    async def drop(self) -> None:
        await self.store.jobs.drop(self.some(1))

    async def release(self) -> None:
        await self.store.jobs.release(self.chance.choice(PARKED), limit=2)
        await self.store.records.drop("signal", ["go"])

    async def pause(self) -> None:
        await self.chance.choice((self.store.queues.pause, self.store.queues.resume))([self.chance.choice(QUEUES)])

    async def no_lane_is_too_full(self) -> None:
        running = Counter((job.queue, job.lane) for job in await found(self.store, state=State.RUNNING) if job.lane)
        assert all(count <= LANES[lane] for (_, lane), count in running.items())

    async def finish(self) -> None:
        """Let everything that can still happen, happen."""
        await self.store.queues.resume(QUEUES)
        for _ in range(10):
            self.clock.turn(HOUR)
            await self.store.jobs.reap(1000, max_lost=1000)
            for reason in PARKED:
                await self.store.jobs.release(reason)
            while leases := (await self.store.jobs.exchange([], ask(50, *QUEUES))).leases:
                await self.store.jobs.exchange([Settlement(lease, Done()) for lease in leases])


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_happens_nothing_is_lost_doubled_or_stuck(store, clock, seed):
    life = Life(store, clock, seed)
    things = [
        life.enqueue, life.enqueue, life.family, life.exchange, life.exchange, life.exchange, life.exchange,
        life.repeat, life.tidy, life.call_off, life.replay, life.promote, life.drop, life.release, life.pause,
    ]  # fmt: skip
    for number in range(300):
        await life.chance.choice(things)()
        if number % 20 == 0:
            await check(store)

    await life.finish()

    assert [job for job in await found(store) if not job.state.ended] == []
    fresh = [life.new_job() for _ in range(20)]
    await store.jobs.enqueue(fresh)
    await life.finish()
    assert {(await store.jobs.get([job.id]))[0].state for job in fresh} == {State.DONE}
