"""How far a job is: what it tells reaches the store while it runs, and the last of it before its end."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from packhorse.engine.context import current
from packhorse.engine.tx import FROM_STORE
from packhorse.errors import InvalidOption, StoreFull
from packhorse.model import codec
from packhorse.model.job import State
from packhorse.testing import run_until_idle
from packhorse.testing.faults import Delay, DropReply, DropRequest, RaiseError
from tests import business
from tests.engine.factories import SECOND, Crossing, EventName, Once, Run, Tasks, job, worker
from tests.factories import one, put_in

ON_LOOP_AND_IN_THREADS = pytest.mark.parametrize("run", [Run.ASYNC, Run.THREAD])


@ON_LOOP_AND_IN_THREADS
async def test_progress_reaches_the_store_while_the_job_runs(live, telemetry, recorder, run):
    tasks = Tasks()
    reported, gate = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def tell() -> None:
        for percent in range(0, 51, 10):
            current().progress(percent, "on the way")
        loop.call_soon_threadsafe(reported.set)

    async def on_loop() -> None:
        tell()
        await asyncio.to_thread(gate.wait, 20)

    def in_thread() -> None:
        tell()
        gate.wait(20)

    tasks.task(run, name="work")(on_loop if run is Run.ASYNC else in_thread)
    [running] = await put_in(live, job("work"))
    async with worker(live, tasks, telemetry):
        await reported.wait()
        async with asyncio.timeout(10):
            while (await one(live, running)).progress != codec.encode({"percent": 50, "message": "on the way"}):
                await asyncio.sleep(0.01)
        gate.set()
        await recorder.until(EventName.DONE)


@ON_LOOP_AND_IN_THREADS
async def test_the_last_progress_is_there_when_the_job_is_settled(live, telemetry, recorder, run):
    tasks = Tasks()

    def tell(fails: bool) -> None:
        for percent in (10, 100):
            current().progress(percent, "reported")
        if fails:
            raise KeyError("at the end")

    async def on_loop(fails: bool) -> None:
        tell(fails)

    tasks.task(run, name="work", attempts=1)(on_loop if run is Run.ASYNC else tell)
    ids = await put_in(live, *(job("work", fails=fails) for fails in (False, True)))
    async with worker(live, tasks, telemetry):
        await recorder.until(EventName.DONE)
        await recorder.until(EventName.DEAD)
        seen = [(await one(live, each)).progress for each in ids]

    assert seen == [progress(100)] * 2


@ON_LOOP_AND_IN_THREADS
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("kind", business.KINDS)
async def test_the_last_progress_is_there_when_a_transaction_is_over(live, telemetry, recorder, run, fails):
    tasks = Tasks()

    def report() -> None:
        for percent in (10, 100):
            current().progress(percent, "reported")
        if fails:
            raise KeyError("at the end")

    async def on_loop() -> None:
        await current().tx.execute("SELECT 1")
        report()

    def in_thread() -> None:
        current().tx.execute("SELECT 1")
        report()

    make = tasks.task(run, name="work", attempts=1, transaction=FROM_STORE)
    make(on_loop if run is Run.ASYNC else in_thread)
    [ended] = await put_in(live, job("work"))
    async with worker(live, tasks, telemetry) as working:
        await recorder.until(EventName.DEAD if fails else EventName.DONE)
        assert working._notes.waiting == []

    assert (await one(live, ended)).progress == progress(100)


async def test_the_last_progress_is_stored_also_after_an_outage(memory, telemetry, recorder):
    tasks, crossing = Tasks(), Crossing()
    crossing.rules["jobs.note"] = Once(DropRequest(), DropReply())

    @tasks.task()
    async def work() -> None:
        current().progress(100, "reported")

    [done] = await put_in(memory, job("work"))
    async with worker(crossing.before(memory), tasks, telemetry):
        await recorder.until(EventName.DONE)

    assert (await one(memory, done)).progress == progress(100)
    assert crossing.count("jobs.note") == 3


async def test_a_store_that_refuses_progress_keeps_no_job_from_its_settlement(memory, telemetry, recorder):
    tasks, crossing = Tasks(), Crossing()
    crossing.rules["jobs.note"] = lambda *args: RaiseError(StoreFull("no room"))

    @tasks.task()
    async def work() -> None:
        current().progress(100, "reported")

    [done] = await put_in(memory, job("work"))
    async with worker(crossing.before(memory), tasks, telemetry):
        await recorder.until(EventName.DONE)

    assert (await one(memory, done)).progress is None


async def test_progress_that_is_late_on_its_way_does_not_replace_a_later_one(memory, telemetry, recorder):
    tasks, crossing = Tasks(), Crossing()
    crossing.rules["jobs.note"] = Once(Delay(SECOND // 3))

    @tasks.task()
    async def work() -> None:
        current().progress(10, "reported")
        while not crossing.count("jobs.note"):
            await asyncio.sleep(0.01)
        current().progress(100, "reported")

    [done] = await put_in(memory, job("work"))
    async with worker(crossing.before(memory), tasks, telemetry):
        await recorder.until(EventName.DONE)
        await asyncio.sleep(0.4)

    assert (await one(memory, done)).progress == progress(100)


@pytest.mark.parametrize("items", [{"a": 1, "b": 2}, {1, 2}, (1, 2), range(2), b"ab"], ids=repr)
async def test_whatever_has_a_length_can_be_tracked(memory, telemetry, recorder, items):
    tasks = Tasks()
    tasks.task(Run.THREAD, name="work")(lambda: list(current().track(items)))
    [done] = await put_in(memory, job("work"))
    async with worker(memory, tasks, telemetry):
        await recorder.until(EventName.DONE)

    assert (await one(memory, done)).progress == progress(100, "2 of 2")


class Endless:
    """Has a length by its class only, like a loader of data that streams."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    def __len__(self) -> int:
        raise self._error("nobody knows")

    def __iter__(self) -> Iterator[int]:
        return iter((1, 2))


@pytest.mark.parametrize("error", [TypeError, OverflowError, NotImplementedError])
async def test_what_does_not_know_its_length_is_gone_through_without_progress(memory, telemetry, recorder, error):
    tasks = Tasks()
    tasks.task(Run.THREAD, name="work", attempts=1)(lambda: list(current().track(Endless(error))))
    [done] = await put_in(memory, job("work"))
    async with worker(memory, tasks, telemetry):
        await recorder.until(EventName.DONE)

    found = await one(memory, done)
    assert (found.result, found.progress) == (b"[1,2]", None)


def progress(percent: float, message: str = "reported") -> bytes:
    return codec.encode({"percent": percent, "message": message})


async def test_progress_beyond_the_end_is_refused(memory):
    tasks = Tasks()
    tasks.task(Run.THREAD, name="work", dead_on=(InvalidOption,))(lambda: current().progress(101))
    [failed] = await put_in(memory, job("work"))

    await run_until_idle(memory, tasks)

    assert (await one(memory, failed)).state is State.DEAD
