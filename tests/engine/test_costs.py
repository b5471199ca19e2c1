"""What a job costs on the hot path: calls of our own functions and round trips to the store, not seconds.

The numbers in ``costs.txt`` are exact for a store in memory. One that leaves its band, up or down, is looked at and, if it is meant,
written down anew: ``PACKHORSE_COSTS=write pytest tests/engine/test_costs.py``.
"""

import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import packhorse
from packhorse import App, Task
from packhorse.engine.worker import Settings
from packhorse.stores.contract import Store
from packhorse.testing.clock import TurnedClock
from packhorse.testing.worker import drain

JOBS = 2000
BAND = 0.10
ROOT = str(Path(packhorse.__file__).parent)
FILE = Path(__file__).with_name("costs.txt")
WRITTEN = {name: float(number) for name, number in (line.split() for line in FILE.read_text().splitlines())}


class Calls:
    """Counts calls of our own functions while it is entered; comprehensions are no functions in newer Pythons."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __enter__(self) -> "Calls":
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _arg: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT) and not code.co_name.startswith("<"):
            self.counts[f"{code.co_filename.removeprefix(ROOT)}:{code.co_qualname}"] += 1


@pytest.fixture
async def app():
    async with App(
        "sqlite:///:memory:", clock=TurnedClock()
    ) as made:  # how long jobs take decides what is leased ahead
        yield made


@pytest.fixture
def work(app: App) -> Task[[int], int]:
    @app.task
    async def work(number: int) -> int:
        return number

    return work


async def together(app: App, work: Task[[int], int]) -> None:
    for first in range(0, JOBS, 500):
        await app.enqueue(*(work.call(number) for number in range(first, first + 500)))


async def measured(name: str, run: Callable[[], Awaitable[object]]) -> None:
    with Calls() as calls:
        await run()
    per_job = sum(calls.counts.values()) / JOBS
    dearest = "\n".join(f"{count / JOBS:8.2f} {what}" for what, count in calls.counts.most_common(25))
    hold(name, per_job, f"calls per job, the most frequent:\n{dearest}")


def hold(name: str, found: float, about: str) -> None:
    if os.environ.get("PACKHORSE_COSTS") == "write":
        WRITTEN[name] = found
        FILE.write_text("".join(f"{each} {number:.4g}\n" for each, number in sorted(WRITTEN.items())))
    expected = WRITTEN[name]
    assert abs(found - expected) <= BAND * expected, f"{name}: {found:.4g} instead of {expected:.4g} {about}"


async def test_calls_per_job_that_is_enqueued_alone(work):
    async def one_by_one() -> None:
        for number in range(JOBS):
            await work.enqueue(number)

    await one_by_one()
    await measured("enqueue", one_by_one)


async def test_calls_per_job_that_is_enqueued_with_others(app, work):
    await together(app, work)
    await measured("bulk", partial(together, app, work))


async def test_calls_and_round_trips_per_job_that_is_run(app, work, monkeypatch):
    store = await app.store()
    trips = counted(store, monkeypatch)

    async def run() -> None:
        await drain(store, app.registry, Settings(concurrency=100), clock=app._clock)

    await together(app, work)
    await run()  # to warm up
    await together(app, work)
    trips.clear()
    await measured("process", run)

    hold("exchanges", trips["exchange"] / JOBS, "exchanges per job")
    assert set(trips) <= {"exchange", "renew", "reap", "release", "prune", "beat"}


def counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each verb of the jobs is called from now on."""
    trips: Counter[str] = Counter()

    def counting(name: str, verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **options: Any) -> Any:
            trips[name] += 1
            return await verb(*args, **options)

        return call

    for name in ("exchange", "renew", "reap", "release", "prune", "note", "watch", "get"):
        monkeypatch.setattr(store.jobs, name, counting(name, getattr(store.jobs, name)))
    return trips
