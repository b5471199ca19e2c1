"""Jobs that are called off while a worker has them."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from packhorse.engine.attempt import current_attempt
from packhorse.engine.context import current
from packhorse.engine.judge import Cause
from packhorse.model.job import State
from packhorse.stores.contract import Store
from tests.engine.factories import EventName, Gate, Run, Tasks, job, lease_ahead, worker
from tests.factories import one, put_in, states

LEASE = 600_000


@pytest.fixture
async def other(live: Store) -> AsyncIterator[Store]:
    """The same place, through another handle."""
    made = live.clone()
    await made.open()
    yield made
    await made.close()


async def test_a_running_job_is_called_off_from_elsewhere(live, other, telemetry, recorder):
    tasks, seen = Tasks(), []

    @tasks.task()
    async def endless() -> None:
        current().publish("news", b"1")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(current_attempt().stop_cause)
            raise

    [called_off] = await put_in(live, job("endless"))
    async with worker(live, tasks, telemetry, lease=LEASE):
        await recorder.until(EventName.STARTED)
        assert await other.jobs.cancel([called_off]) == [State.RUNNING]
        await recorder.until(EventName.CANCELLED)

    found = await one(live, called_off)
    assert seen == [Cause.CANCEL]
    assert (found.state, found.failures) == (State.CANCELLED, ())
    assert await live.streams.read("news") == []


async def test_a_thread_sees_that_its_job_is_called_off(live, other, telemetry, recorder):
    tasks, pause = Tasks(), threading.Event()

    @tasks.task(Run.THREAD)
    def endless() -> None:
        while not current().cancelled:
            pause.wait(0.01)
        current_attempt().raise_if_stopped()

    [called_off] = await put_in(live, job("endless"))
    async with worker(live, tasks, telemetry, lease=LEASE):
        await recorder.until(EventName.STARTED)
        await other.jobs.cancel([called_off])
        await recorder.until(EventName.CANCELLED)

    assert (await one(live, called_off)).state is State.CANCELLED


async def test_whatever_a_handler_makes_of_being_called_off_its_job_is_cancelled(memory, telemetry, recorder):
    tasks = Tasks()

    @tasks.task()
    async def upset() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("why?") from None

    [called_off] = await put_in(memory, job("upset"))
    async with worker(memory, tasks, telemetry, lease=LEASE):
        await recorder.until(EventName.STARTED)
        await memory.jobs.cancel([called_off])
        await recorder.until(EventName.CANCELLED)

    assert (await one(memory, called_off)).failures == ()


async def test_a_handler_of_a_job_called_off_that_does_not_stop_is_reported_and_its_job_settled(
    memory, telemetry, recorder
):
    tasks, free = Tasks(), asyncio.Event()

    @tasks.task()
    async def stubborn() -> None:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                pass

    [called_off] = await put_in(memory, job("stubborn"))
    async with worker(memory, tasks, telemetry, lease=LEASE, patience=100_000):
        await recorder.until(EventName.STARTED)
        await memory.jobs.cancel([called_off])
        [stuck] = (await recorder.until(EventName.ATTEMPT_STUCK))[:1]
        await recorder.until(EventName.CANCELLED)
        free.set()

    assert stuck["detail"] is Cause.CANCEL
    assert (await one(memory, called_off)).state is State.CANCELLED


@pytest.mark.parametrize("run", [Run.ASYNC, Run.THREAD])
async def test_a_job_in_hand_is_called_off_before_it_begins(memory, telemetry, recorder, run):
    tasks, begun = Tasks(), []
    gate = Gate()
    wait = threading.Event()
    tasks.task(run, name="slow")(gate if run is Run.ASYNC else lambda: wait.wait(20))
    tasks.task(run, name="next")(begun.append)
    waiting = [job("next", number=number) for number in range(3)]
    async with worker(memory, tasks, telemetry, lease=LEASE, concurrency=1) as working:
        lease_ahead(working)
        await put_in(memory, job("slow"), *waiting)
        await recorder.until(EventName.STARTED, task="slow")

        assert await memory.jobs.cancel([each.id for each in waiting]) == [State.RUNNING] * 3
        await recorder.until(EventName.CANCELLED, 3)

        assert recorder.count(EventName.THREAD_STUCK) == 0
        gate.open()
        wait.set()
        await recorder.until(EventName.DONE, task="slow")

    assert begun == []
    assert await states(memory, *[each.id for each in waiting]) == [State.CANCELLED] * 3
