"""What a job costs on the hot path: calls of our own functions and round trips to the store, not seconds.

The numbers in ``costs.txt`` are exact for a store in memory, and nearly so for servers and threads, where answers come when
they come: one or two exchanges more or less are then no news.
One that leaves its band, up or down, is looked at and, if it is meant, written down anew:
``PACKHORSE_COSTS=write pytest tests/engine/test_costs.py``.
"""

import os
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import packhorse
from packhorse import App, Task
from packhorse.engine.worker import Settings
from packhorse.stores.contract import Store
from packhorse.testing import TurnedClock, run_until_idle
from tests.conftest import kinds, namespace

STORES = [kind for kind in kinds() if kind in ("memory", "redis", "postgres")]
JOBS = 2000
BAND = 0.10
CHANCE = 3 / JOBS  # exchanges a job, where it is not known which answer comes first
ROOT = str(Path(packhorse.__file__).parent)
FILE = Path(__file__).with_name("costs.txt")
WRITTEN = {name: float(number) for name, number in (line.split() for line in FILE.read_text().splitlines())}


class Calls:
    """Counts calls of our own functions while it is entered, also in threads that begin meanwhile.

    Comprehensions are no functions in newer Pythons.
    """

    def __init__(self) -> None:
        self._by_thread: defaultdict[int, Counter[str]] = defaultdict(Counter)

    @property
    def counts(self) -> Counter[str]:
        return sum(self._by_thread.values(), Counter())

    def __enter__(self) -> "Calls":
        threading.setprofile(self._called)
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _called(self, frame: FrameType, event: str, _arg: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT) and not code.co_name.startswith("<"):
            counts = self._by_thread[threading.get_ident()]
            counts[f"{code.co_filename.removeprefix(ROOT)}:{code.co_qualname}"] += 1


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def app(kind: str, url: str):
    async with App(url, namespace=namespace(kind), clock=TurnedClock()) as made:
        yield made  # how long jobs take decides what is leased ahead: by this clock, no time at all


@pytest.fixture
def one_by_one() -> Iterator[None]:
    """Each thread goes on until it has to wait, so that what is counted does not hang on who gets its turn when."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(60)
    yield
    sys.setswitchinterval(usual)


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
    hold_calls(name, calls.counts)


def hold_calls(name: str, counts: Counter[str]) -> None:
    dearest = "\n".join(f"{count / JOBS:8.2f} {what}" for what, count in counts.most_common(25))
    hold(name, counts.total() / JOBS, f"calls per job, the most frequent:\n{dearest}")


def hold(name: str, found: float, about: str, least: float = 0) -> None:
    if os.environ.get("PACKHORSE_COSTS") == "write":
        WRITTEN[name] = found
        FILE.write_text("".join(f"{each} {number:.4g}\n" for each, number in sorted(WRITTEN.items())))
    expected = WRITTEN[name]
    assert abs(found - expected) <= max(BAND * expected, least), (
        f"{name}: {found:.4g} instead of {expected:.4g} {about}"
    )


async def test_calls_per_job_that_is_enqueued_alone(kind, work):
    async def alone() -> None:
        for number in range(JOBS):
            await work.enqueue(number)

    await work.enqueue(0)
    await measured(f"{kind}.enqueue", alone)


async def test_calls_per_job_that_is_enqueued_with_others(kind, app, work):
    await together(app, work)
    await measured(f"{kind}.bulk", partial(together, app, work))


async def test_calls_and_round_trips_per_job_that_is_run(kind, app, work, monkeypatch):
    await processed(kind, app, work, monkeypatch)


@pytest.mark.parametrize("kind", ["memory"])
async def test_calls_and_round_trips_per_job_that_is_run_in_a_thread(kind, app, monkeypatch, one_by_one):
    @app.task
    def work(number: int) -> int:
        return number

    await processed("threads", app, work, monkeypatch, times=3)


async def processed(
    name: str, app: App, work: Task[[int], int], monkeypatch: pytest.MonkeyPatch, times: int = 1
) -> None:
    """Count what jobs cost that are run: the least of so many times, for threads that take turns by chance only add."""
    store = await app.store()
    round_trips = counted(store, monkeypatch)

    async def run() -> None:
        await run_until_idle(store, app.registry, Settings(concurrency=100), clock=app._clock)

    await together(app, work)
    await run()  # to warm up
    runs: list[tuple[int, Counter[str]]] = []
    for _ in range(times):
        await together(app, work)
        round_trips.clear()
        with Calls() as calls:
            await run()
        runs.append((round_trips["exchange"], calls.counts))

    hold_calls(f"{name}.process", min((counts for _, counts in runs), key=Counter.total))
    exchanges = min(exchanges for exchanges, _ in runs)
    hold(f"{name}.exchanges", exchanges / JOBS, "exchanges per job", 0 if name == "memory" else CHANCE)
    assert set(round_trips) <= {"exchange", "renew", "reap", "release", "prune", "beat"}


def counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each verb of the jobs is called from now on."""
    round_trips: Counter[str] = Counter()

    def counting(name: str, verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **options: Any) -> Any:
            round_trips[name] += 1
            return await verb(*args, **options)

        return call

    for name in ("exchange", "renew", "reap", "release", "prune", "note", "watch", "get"):
        monkeypatch.setattr(store.jobs, name, counting(name, getattr(store.jobs, name)))
    return round_trips
