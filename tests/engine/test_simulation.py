"""Workers in simulated time: one loop, one clock that leaps, seeded chance and faults; the same seed is the same run."""

import asyncio
import heapq
import os
import random
from typing import Any

import pytest

from packhorse.engine.context import current
from packhorse.engine.runners import LoopRunner
from packhorse.engine.worker import Worker
from packhorse.model.job import State
from packhorse.stores import open_store
from packhorse.stores.contract import Store
from packhorse.testing.clock import START_US, TurnedClock
from packhorse.testing.faults import Delay, DelayReply, DropReply, DropRequest, Fault, Faulty
from tests.engine.factories import SECOND, Crossing, Tasks, job, jobs, settings
from tests.factories import HOUR, found, put_in

LEASE = 2 * SECOND
JOBS = 300
SEEDS = 200 if os.environ.get("PACKHORSE_TEST_LONG") else 10
LONGEST = 3600 * SECOND


class LeapingClock(TurnedClock):
    """Goes from one moment that somebody waits for to the next."""

    def __init__(self) -> None:
        super().__init__()
        self._moments: list[int] = []

    async def sleep(self, duration: int) -> None:
        heapq.heappush(self._moments, self.now() + duration)
        await super().sleep(duration)

    def leap(self) -> None:
        while self._moments and self._moments[0] <= self.now():
            heapq.heappop(self._moments)
        if self._moments:
            self.to(self._moments[0])


async def turn(clock: LeapingClock) -> None:
    """Let time pass whenever nobody has anything to do."""
    while True:
        for _ in range(15):
            await asyncio.sleep(0)
        clock.leap()


class World:
    """Two workers, a store, and a bad way between them."""

    def __init__(self, store: Store, clock: LeapingClock, seed: int) -> None:
        self.chance = random.Random(seed)
        self.store, self.clock = store, clock
        self.tasks = Tasks()
        self.tasks.task(name="work", attempts=1000)(self.work)
        self.faults = 0

    async def work(self, number: int) -> None:
        current().publish("done", b"%d" % number)
        await self.clock.sleep(self.chance.randrange(100_000))
        if self.chance.random() < 0.05:
            raise ValueError("now and then")

    def decide(self, name: str, args: tuple[Any, ...]) -> Fault | None:
        if name not in {"jobs.exchange", "jobs.renew", "jobs.reap", "fleet.beat"} or self.chance.random() > 0.2:
            return None
        self.faults += 1
        late = self.chance.choice([1000, 100_000, 2 * LEASE])
        faults: list[Fault] = [DropRequest(), DropReply(), Delay(late), DelayReply(late)]
        return self.chance.choice(faults)

    def worker(self) -> Worker:
        return Worker(
            Faulty(self.store, self.decide, clock=self.clock),
            self.tasks,
            settings(concurrency=5, lease=LEASE, max_lost=1000),
            clock=self.clock,
            chance=self.chance.random,
            place=LoopRunner,
        )

    async def live(self) -> None:
        """Let the workers work until every job has ended."""
        turning = asyncio.create_task(turn(self.clock))
        try:
            async with self.worker(), self.worker():
                while not await self.over():
                    assert self.clock.now() < START_US + LONGEST
                    await self.clock.sleep(SECOND)
        finally:
            turning.cancel()

    async def over(self) -> bool:
        counts = (await self.store.jobs.count())["default"]
        return sum(count for state, count in counts.items() if state.ended) == JOBS


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_every_job_is_done_and_its_effects_are_written_once(seed):
    clock = LeapingClock()
    store = open_store("sqlite:///:memory:", clock=clock)
    await store.migrate()
    await store.open()
    world = World(store, clock, seed)
    await put_in(store, *jobs(JOBS))

    await world.live()

    ended = await found(store, limit=500, queue="default")
    assert {each.state for each in ended} == {State.DONE}
    events = await store.streams.read("done", limit=1000)
    assert sorted(int(event.data) for event in events) == list(range(JOBS))
    assert world.faults > 20
    await store.close()


@pytest.mark.parametrize("before", [0, 2 * SECOND, 4 * SECOND])
async def test_a_worker_whose_store_is_frozen_ends_within_six_seconds_after_its_grace(before):
    clock, tasks, crossing = LeapingClock(), Tasks(), Crossing()
    store = open_store("sqlite:///:memory:", clock=clock)
    await store.migrate()
    await store.open()
    begun = asyncio.Event()

    @tasks.task()
    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            current().progress(50)

    await put_in(store, job("work"))
    turning = asyncio.create_task(turn(clock))
    frozen = Faulty(store, crossing, clock=clock)
    working = Worker(frozen, tasks, settings(grace=SECOND), clock=clock, chance=lambda: 0.5, place=LoopRunner)
    async with asyncio.timeout(20), working:
        await begun.wait()
        await clock.sleep(SECOND)
        crossing.rules["*"] = lambda *args: Delay(HOUR)
        await clock.sleep(before)
        stopped = clock.now()
    turning.cancel()
    await store.close()

    assert clock.now() - stopped < 7 * SECOND
