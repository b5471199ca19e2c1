"""Flows end, with every result once, while workers are killed and answers are lost.

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

from packhorse import App, chord, group
from packhorse.engine.worker import Settings
from packhorse.jobs.flows import Flow
from packhorse.testing.faults import DropReply, DropRequest, Fault, Faulty
from packhorse.testing.worker import drain
from tests.features.making import Place, everything, until

LONG = bool(os.environ.get("PACKHORSE_TEST_LONG"))
CALLS = 900  # in a group, which is spread by three jobs
FLOWS = 40 if LONG else 3
LEASE = 1_000_000
SEED = int(os.environ.get("PACKHORSE_SEED", random.randrange(1 << 30)))


class Flows:
    """Groups that are spread, each with what comes after it; the tasks are those of ``tests.features.programs``."""

    def __init__(self, app: App) -> None:
        self.ran: Counter[int] = Counter()

        @app.task(name="part", queue="flows")
        async def part(number: int) -> int:
            self.ran[number] += 1
            return number

        @app.task(name="together", queue="flows")
        async def together(numbers: list[int]) -> int:
            assert len(numbers) == CALLS
            return sum(numbers)

        self._part, self._together = part, together

    def one(self) -> Flow[int]:
        return chord(group(*(self._part.call(number) for number in range(CALLS))), self._together)


async def none_waits(app: App) -> bool:
    counts = await app.queue("flows").counts()
    return not sum(counts[state] for state in ("scheduled", "ready", "running", "waiting"))


async def test_flows_end_with_every_result_while_workers_are_killed(live: App, place: Place):
    flows = Flows(live)
    handles = [await flows.one().enqueue() for _ in range(FLOWS)]
    killing = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.features.killing", "flows", str(LEASE), str(SEED), env=place.environment
    )
    try:

        async def all_done() -> bool:
            await asyncio.sleep(0.1)
            assert killing.returncode is None
            return await none_waits(live)

        await until(all_done, 60 + 5 * FLOWS)
    finally:
        killing.send_signal(signal.SIGTERM)
        await killing.wait()

    assert [await handle.result(1) for handle in handles] == [sum(range(CALLS))] * FLOWS, f"PACKHORSE_SEED={SEED}"
    ran = Counter(int(number) for _, number in place.lines("part"))
    assert sum(ran.values()) >= FLOWS * CALLS
    assert min(ran[number] for number in range(CALLS)) >= FLOWS
    assert {int(count) for _, count in place.lines("together")} == {CALLS}
    assert place.lines("killed")


@pytest.mark.parametrize("losses", range(10 if LONG else 1))
async def test_flows_end_with_every_result_while_answers_are_lost(live: App, losses: int):
    chance, flows = random.Random(SEED + losses), Flows(live)
    handle = await flows.one().enqueue()
    exchanges = count()

    def decide(name: str, _: Any) -> Fault | None:
        if name != "jobs.exchange":
            return None
        if next(exchanges) % 2 == 0:
            return DropReply()
        return DropRequest() if chance.random() < 0.2 else None

    store = Faulty(await live.store(), decide)
    await drain(store, live.registry, Settings(queues={"flows": 1}, concurrency=500))

    assert await handle.result(1) == sum(range(CALLS)), f"PACKHORSE_SEED={SEED}"
    assert flows.ran == Counter(range(CALLS))  # nobody was killed, so nothing runs twice
    assert {job.status for job in await everything(live)} == {"done"}
