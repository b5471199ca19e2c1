"""Jobs of a lane, one at a time, also when one of them does not stop."""

import asyncio
import threading

import pytest

from packhorse.model.job import State
from tests.engine.factories import EventName, Run, Tasks, job, worker
from tests.factories import one, put_in


class Stubborn:
    """A handler that does not stop before it is free, whatever cancels it."""

    def __init__(self) -> None:
        self._free = threading.Event()
        self._inside = False

    async def begun(self) -> None:
        async with asyncio.timeout(20):
            while not self._inside:
                await asyncio.sleep(0.001)

    def release(self) -> None:
        self._free.set()

    def in_thread(self) -> None:
        self._inside = True
        self._free.wait(20)

    async def on_loop(self) -> None:
        self._inside = True
        while not self._free.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                pass


@pytest.mark.parametrize("run", [Run.THREAD, Run.ASYNC])
@pytest.mark.parametrize("cause", ["cancelled", "timed out"])
async def test_the_next_of_a_lane_waits_for_one_that_does_not_stop(live, telemetry, recorder, run, cause):
    tasks, stubborn = Tasks(), Stubborn()
    timeout = 100_000 if cause == "timed out" else None
    tasks.task(run, name="stubborn", timeout=timeout)(stubborn.in_thread if run is Run.THREAD else stubborn.on_loop)

    @tasks.task()
    async def work() -> None:
        pass

    first, second = job("stubborn", lane="a"), job("work", lane="a")
    async with worker(live, tasks, telemetry, lease=300_000, patience=50_000):
        await put_in(live, first, second)
        await stubborn.begun()
        if cause == "cancelled":
            await live.jobs.cancel([first.id])
        await recorder.until(EventName.THREAD_STUCK if run is Run.THREAD else EventName.ATTEMPT_STUCK)
        await put_in(live, job("work"))
        await recorder.until(EventName.DONE)  # the one without a lane

        assert recorder.count(EventName.STARTED, "work") == 1
        assert (await one(live, first.id)).state is State.RUNNING
        stubborn.release()
        await recorder.until(EventName.DONE, 2, task="work")

    assert (await one(live, second.id)).state is State.DONE
    assert (await one(live, first.id)).state is State.DONE


async def test_a_lane_whose_job_does_not_stop_goes_on_when_its_lease_is_lost(memory, telemetry, recorder):
    tasks, stubborn = Tasks(), Stubborn()
    tasks.task(Run.THREAD, name="stubborn")(stubborn.in_thread)
    tasks.task(Run.THREAD, name="work")(lambda: None)
    first, second = job("stubborn", lane="a"), job("work", lane="a")
    async with worker(memory, tasks, telemetry, lease=300_000, patience=50_000):
        await put_in(memory, first, second)
        await stubborn.begun()
        await memory.jobs.drop([first.id])
        await recorder.until(EventName.DONE, task="work")
        await recorder.until(EventName.LEASE_LOST)
        stubborn.release()
