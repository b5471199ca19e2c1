"""Waiters that come, give up, run out and are cancelled at random, while the store goes away and comes back.

``PACKHORSE_SEED`` repeats a storm; ``PACKHORSE_TEST_LONG=1`` makes many.
"""

import asyncio
import os
import random
from typing import Any

import pytest

from packhorse import App, JobCancelled, JobFailed, JobHandle
from packhorse.errors import OutcomeUnknown, StoreClosed, StoreUnavailable
from packhorse.jobs.result_waiter import ResultWaiter
from packhorse.testing.faults import Delay, DropReply, Faulty, RaiseError
from tests.features.factories import SECOND
from tests.features.test_waiting import nothing_waits

STORMS = 30 if os.environ.get("PACKHORSE_TEST_LONG") else 2
SEED = os.environ.get("PACKHORSE_SEED")
JOBS, WAITS = 40, 120
FAULTS = (
    RaiseError(StoreUnavailable("away on purpose")),
    RaiseError(OutcomeUnknown("lost on purpose")),
    DropReply(),
    Delay(SECOND // 50),
)


class Weather:
    """Faults of a store that come and go."""

    def __init__(self, chance: random.Random) -> None:
        self._chance, self.bad = chance, 0.0

    def decide(self, name: str, args: tuple[Any, ...]) -> Any:
        return self._chance.choice(FAULTS) if self._chance.random() < self.bad else None

    async def change(self) -> None:
        while True:
            self.bad = self._chance.choice((0, 0, 0.3, 1))
            await asyncio.sleep(self._chance.random() / 10)


async def wait_at_random(job: JobHandle[Any], chance: random.Random) -> str:
    """Wait for a job in one of several ways, and say what came of it."""
    await asyncio.sleep(chance.random() / 2)
    how = chance.choice(("patient", "patient", "hasty", "cancelled"))
    limit = chance.random() / 5 if how == "hasty" else 30
    waiting = asyncio.create_task(job.result(limit))
    if how == "cancelled":
        await asyncio.sleep(chance.random() / 5)
        waiting.cancel()
    try:
        return f"done {await waiting}"
    except (JobFailed, JobCancelled) as error:
        return type(error).__name__
    except (TimeoutError, asyncio.CancelledError) as error:
        assert how != "patient"
        return f"gave up: {type(error).__name__}"


@pytest.mark.parametrize("seed", [int(SEED)] if SEED else range(STORMS))
async def test_every_patient_waiter_gets_its_answer_through_a_storm(live: App, seed: int):
    chance = random.Random(seed)

    @live.task(attempts=1)
    async def work(number: int) -> int:
        await asyncio.sleep(number % 7 / 20)
        if number % 5 == 0:
            raise ValueError("on purpose")
        return number

    jobs = await live.enqueue(*(work.call(number) for number in range(JOBS)))
    for job in jobs[3::10]:
        await job.cancel()
    home, weather, before = await live.client.loop_store(), Weather(chance), len(asyncio.all_tasks())
    home.waiter = ResultWaiter(Faulty(home.store, weather.decide), live._clock)
    picked = [chance.randrange(JOBS) for _ in range(WAITS)]
    waits = [
        asyncio.create_task(wait_at_random(jobs[number], random.Random(seed + n))) for n, number in enumerate(picked)
    ]
    changing = asyncio.create_task(weather.change())
    await asyncio.sleep(0.1)
    async with live.worker(concurrency=5):
        answers = await asyncio.gather(*waits)
        changing.cancel()
    for number, answer in zip(picked, answers, strict=True):
        right = "JobCancelled" if number % 10 == 3 else "JobFailed" if number % 5 == 0 else f"done {number}"
        assert answer == right or answer.startswith("gave up"), (number, answer)
    await asyncio.gather(changing, return_exceptions=True)
    await nothing_waits(live, before)


@pytest.mark.parametrize("seed", [int(SEED)] if SEED else range(STORMS))
async def test_an_app_that_is_closed_again_and_again_answers_its_waiters_or_says_so(live: App, seed: int):
    chance = random.Random(seed)

    @live.task
    async def work(number: int) -> int:
        return number

    jobs = await live.enqueue(*(work.call(number) for number in range(20)))
    before = len(asyncio.all_tasks())

    async def wait(number: int) -> int:
        while True:
            await asyncio.sleep(chance.random() / 5)
            try:
                return await jobs[number].result(20)
            except StoreClosed:
                continue

    waits = [asyncio.create_task(wait(number)) for number in range(20) for _ in range(3)]
    for _ in range(10):
        await asyncio.sleep(chance.random() / 20)
        await live.close()
    async with live.worker():
        assert sorted(await asyncio.gather(*waits)) == sorted([*range(20)] * 3)
    await live.close()
    assert len(asyncio.all_tasks()) <= before
