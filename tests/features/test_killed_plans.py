"""Plans end, with every result once, while workers are killed and answers are lost.

``PACKHORSE_TEST_LONG=1`` is the full length; ``PACKHORSE_SEED`` repeats the kills or losses of a run.
"""

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from itertools import count
from typing import Any

import pytest

from packhorse import App, Keep, chain, chord, group
from packhorse.engine.worker import Settings
from packhorse.jobs.plans import Plan
from packhorse.testing import run_until_idle
from packhorse.testing.faults import DropReply, DropRequest, Fault, Faulty
from tests.features.factories import Place, everything, until

LONG = bool(os.environ.get("PACKHORSE_TEST_LONG"))
CALLS = 900  # in a group, which is spread by three jobs
PLANS = 40 if LONG else 3
LEASE = 1_000_000
KEPT = Keep(age="1h")  # the last jobs, however many others end
SEED = int(os.environ.get("PACKHORSE_SEED", random.randrange(1 << 30)))


class Plans:
    """Plans of many jobs that go through collecting jobs; the tasks are those of ``tests.features.programs``."""

    def __init__(self, app: App) -> None:
        self.ran: Counter[int] = Counter()

        @app.task(name="part", queue="plans")
        async def part(number: int) -> int:
            self.ran[number] += 1
            return number

        @app.task(name="together", queue="plans")
        async def together(numbers: list[int]) -> int:
            assert len(numbers) == CALLS
            return sum(numbers)

        @app.task(name="sum", queue="plans")
        async def sum_of(numbers: list[int]) -> int:
            return sum(numbers)

        self._part, self._together, self._sum = part, together, sum_of

    def one(self) -> Plan[int]:
        return chord(group(*(self._part.call(number) for number in range(CALLS))), self._together.using(keep_done=KEPT))

    def nested(self) -> Plan[int]:
        """A chord in a group in a chain: 10 + 20, which each of 30 chords and their 10 parts take, then their sum."""
        first = chord(group(self._part.call(10), self._part.call(20)), self._sum)
        return chain(first, group(*[chord(group(*[self._part] * 10), self._sum)] * 30), self._sum.using(keep_done=KEPT))


async def none_waits(app: App) -> bool:
    counts = await app.queue("plans").counts()
    return not sum(counts[state] for state in ("scheduled", "ready", "running", "waiting"))


async def test_plans_end_with_every_result_while_workers_are_killed(live: App, place: Place):
    plans = Plans(live)
    handles = [await plans.one().enqueue() for _ in range(PLANS)]
    nested = [await plans.nested().enqueue() for _ in range(PLANS)]
    killing = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.features.killing", "plans", str(LEASE), str(SEED), env=place.environment
    )
    try:

        async def all_done() -> bool:
            await asyncio.sleep(0.1)
            assert killing.returncode is None
            return await none_waits(live)

        await until(all_done, 60 + 5 * PLANS)
    finally:
        killing.send_signal(signal.SIGTERM)
        await killing.wait()

    assert [await handle.result(1) for handle in handles] == [sum(range(CALLS))] * PLANS, f"PACKHORSE_SEED={SEED}"
    assert [await handle.result(1) for handle in nested] == [30 * 10 * 30] * PLANS, f"PACKHORSE_SEED={SEED}"
    ran = Counter(int(number) for _, number in place.lines("part"))
    assert sum(ran.values()) >= PLANS * CALLS
    assert min(ran[number] for number in range(CALLS)) >= PLANS
    assert {int(count) for _, count in place.lines("together")} == {CALLS}
    assert place.lines("killed")


@pytest.mark.parametrize("losses", range(10 if LONG else 1))
async def test_plans_end_with_every_result_while_answers_are_lost(live: App, losses: int):
    chance, plans = random.Random(SEED + losses), Plans(live)
    handle, nested = await plans.one().enqueue(), await plans.nested().enqueue()
    exchanges = count()

    def decide(name: str, _: Any) -> Fault | None:
        if name != "jobs.exchange":
            return None
        if next(exchanges) % 2 == 0:
            return DropReply()
        return DropRequest() if chance.random() < 0.2 else None

    store = Faulty(await live.store(), decide)
    await run_until_idle(store, live.registry, Settings(queues={"plans": 1}, concurrency=500))

    assert await handle.result(1) == sum(range(CALLS)), f"PACKHORSE_SEED={SEED}"
    assert await nested.result(1) == 30 * 10 * 30, f"PACKHORSE_SEED={SEED}"
    assert plans.ran == Counter(range(CALLS)) + Counter(
        {10: 1, 20: 1, 30: 300}
    )  # nobody was killed, so nothing runs twice
    assert {job.state for job in await everything(live)} == {"done"}
